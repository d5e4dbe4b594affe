package upstreamsuite

import (
	"context"
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// getCases reads an object that lives for a second, in subtests that want their turn within it.
func getCases() []testCase {
	return []testCase{
		plain("Get", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestGet(ctx, t, s.Store)
		}),
	}
}

func listCases() []testCase {
	// How many objects the raw storage read for a page is upstream's own business: the cached tests there do not look either.
	anyCalls := func(*testing.T, uint64, uint64) {}
	return []testCase{
		plain("ListPaging", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestListPaging(ctx, t, s.Store)
		}),
		plain("GetListRecursivePrefix", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestGetListRecursivePrefix(ctx, t, s.Store)
		}),
		plain("ListContinuation", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestListContinuation(ctx, t, s.Store, anyCalls)
		}),
		plain("ListPaginationRareObject", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, s.Store, anyCalls)
		}),
		plain("ListContinuationWithFilter", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, s.Store, anyCalls)
		}),
		{name: "NamespaceScopedList", options: []func(*SetupOptions){indexed}, run: func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestNamespaceScopedList(ctx, t, s.Store)
		}},
	}
}

// snapshotCases depend on whether the cache keeps snapshots of old revisions.
func snapshotCases(snapshots bool) []testCase {
	cases := []testCase{
		{
			name: "List",
			// What it expects a cache without snapshots to read from etcd names revisions 2 to 8.
			options: []func(*SetupOptions){func(o *SetupOptions) { o.Pristine = !snapshots }},
			run: func(ctx context.Context, t *testing.T, s Setup) {
				storagetesting.RunTestList(ctx, t, s.Store, s.compactEtcd, true, s.Etcd.recorder)
			},
		},
		plain("ConsistentList", func(ctx context.Context, t *testing.T, s Setup) {
			// Two of the check's flags say nothing else than these: cacheEnabled, that "0" answers with the cache as it stands, and
			// listFromCacheSnapshot, that a list that goes on at the newest revision brings the cache there.
			storagetesting.RunTestConsistentList(ctx, t, s.Store, s.increaseRV, !s.ZeroIsNewest, true, snapshots || s.ContinueSyncs)
		}),
		plain("GetListNonRecursive", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, s.increaseRV, s.Store)
		}),
	}
	if snapshots { // a cache without snapshots does not watch for compactions
		cases = append(cases, plain("CompactRevision", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestCompactRevision(ctx, t, s.Store, s.increaseRV, s.compactEtcd)
		}))
	}
	return cases
}

func statsCases(sizes bool) []testCase {
	return []testCase{plain("Stats", func(ctx context.Context, t *testing.T, s Setup) {
		storagetesting.RunTestStats(ctx, t, s.Store, protoCodec(), plainTransformer(), sizes)
	})}
}
