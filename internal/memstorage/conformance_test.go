package memstorage_test

import (
	"context"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// TestUpstreamSuite runs what upstream runs over etcd3, as far as it needs nothing
// but a storage.Interface that refuses a time to live and ignores suggestions.
func TestUpstreamSuite(t *testing.T) {
	type check func(context.Context, *testing.T, storage.Interface)
	anyKey := func(context.Context, *testing.T, string) {}
	anyCalls := func(*testing.T, uint64, uint64) {}
	for name, run := range map[string]check{
		"Create": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestCreate(ctx, t, s, anyKey)
		},
		"CreateWithKeyExist": storagetesting.RunTestCreateWithKeyExist,
		"Get": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestGet(ctx, t, forever{s})
		},
		"UnconditionalDelete": storagetesting.RunTestUnconditionalDelete,
		"ConditionalDelete":   storagetesting.RunTestConditionalDelete,
		"DeleteWithConflict":  storagetesting.RunTestDeleteWithConflict,
		"List": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestList(ctx, t, s, compaction(s), false, nil)
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, bump(s), s)
		},
		"GetListRecursivePrefix": storagetesting.RunTestGetListRecursivePrefix,
		"ListContinuation": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestListContinuation(ctx, t, s, anyCalls)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, s, anyCalls)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, s, anyCalls)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, s, compaction(s))
		},
		"ListPaging":                   storagetesting.RunTestListPaging,
		"NamespaceScopedList":          storagetesting.RunTestNamespaceScopedList,
		"GuaranteedUpdateWithConflict": storagetesting.RunTestGuaranteedUpdateWithConflict,
		"KeySchema":                    storagetesting.RunTestKeySchema,
		"Watch":                        storagetesting.RunTestWatch,
		"WatchFromZero": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestWatchFromZero(ctx, t, s, compaction(s))
		},
		"WatchFromNonZero":                       storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                   storagetesting.RunTestDelayedWatchDelivery,
		"WatchContextCancel":                     storagetesting.RunTestWatchContextCancel,
		"WatchDeleteEventObjectHaveLatestRV":     storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"ClusterScopedWatch":                     storagetesting.RunTestClusterScopedWatch,
		"NamespaceScopedWatch":                   storagetesting.RunTestNamespaceScopedWatch,
		"SendInitialEventsBackwardCompatibility": storagetesting.RunSendInitialEventsBackwardCompatibility,
		"WatchSemantics":                         storagetesting.RunWatchSemantics,
		"WatchSemanticInitialEventsExtended":     storagetesting.RunWatchSemanticInitialEventsExtended,
		"WatchListMatchSingle":                   storagetesting.RunWatchListMatchSingle,
	} {
		t.Run(name, func(t *testing.T) {
			backend := memstorage.NewBackend()
			t.Cleanup(backend.Close)
			run(t.Context(), t, newStorage(t, backend, memstorage.Config{}))
		})
	}
}

func newStorage(t *testing.T, backend *memstorage.Backend, cfg memstorage.Config) *memstorage.Storage {
	t.Helper()
	cfg.Prefix, cfg.New = "/pods/", func() runtime.Object { return &example.Pod{} }
	s, err := memstorage.New(backend, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compaction(s storage.Interface) storagetesting.Compaction {
	return func(_ context.Context, t *testing.T, resourceVersion string) {
		t.Helper()
		revision, err := strconv.ParseUint(resourceVersion, 10, 64)
		backend := s.(*memstorage.Storage).Backend()
		if err == nil {
			err = backend.Compact(revision)
		}
		if err != nil {
			t.Fatal(err)
		}
		backend.Bump() // upstream's compactor notes what it did in a key
	}
}

func bump(s storage.Interface) storagetesting.IncreaseRVFunc {
	return func(context.Context, *testing.T) int64 { return int64(s.(*memstorage.Storage).Backend().Bump()) }
}

// forever lets updates with a time to live through: RunTestGet sets one and is over
// before it ends.
type forever struct{ storage.Interface }

func (f forever) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	return f.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions,
		func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			output, _, err := update(input, meta)
			return output, nil, err
		}, cached)
}
