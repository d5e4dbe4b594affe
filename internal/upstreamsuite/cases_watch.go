package upstreamsuite

import (
	"context"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

func watchCases() []testCase {
	return []testCase{
		plain("Watch", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatch(ctx, t, s.Store)
		}),
		plain("WatchFromZero", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatchFromZero(ctx, t, s.Store, s.compactCache)
		}),
		plain("DeleteTriggerWatch", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDeleteTriggerWatch(ctx, t, s.Store)
		}),
		plain("WatchFromNonZero", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatchFromNonZero(ctx, t, s.Store)
		}),
		plain("DelayedWatchDelivery", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDelayedWatchDelivery(ctx, t, queued{s.Store})
		}),
		plain("WatcherTimeout", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatcherTimeout(ctx, t, s.Store)
		}),
		plain("WatchDeleteEventObjectHaveLatestRV", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(ctx, t, s.Store)
		}),
		plain("WatchInitializationSignal", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatchInitializationSignal(ctx, t, s.Store)
		}),
		{name: "ClusterScopedWatch", options: []func(*SetupOptions){clusterScoped, indexed}, run: func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestClusterScopedWatch(ctx, t, s.Store)
		}},
		{name: "NamespaceScopedWatch", options: []func(*SetupOptions){indexed}, run: func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestNamespaceScopedWatch(ctx, t, s.Store)
		}},
		plain("WatchDispatchBookmarkEvents", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s.Store, true)
		}),
		plain("OptionalWatchBookmarksWithCorrectResourceVersion", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, s.Store)
		}),
		plain("SendInitialEventsBackwardCompatibility", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunSendInitialEventsBackwardCompatibility(ctx, t, s.Store)
		}),
	}
}

// initialEventsCases switch the gate WatchList, and give events 150 ms to arrive.
func initialEventsCases() []testCase {
	return []testCase{
		plain("WatchSemantics", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunWatchSemantics(ctx, t, createAndSee{s.Store})
		}),
		plain("WatchSemanticInitialEventsExtended", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunWatchSemanticInitialEventsExtended(ctx, t, createAndSee{s.Store})
		}),
		plain("WatchListMatchSingle", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunWatchListMatchSingle(ctx, t, createAndSee{s.Store})
		}),
	}
}

// createAndSee returns from Create when the cache has the object. The checks of initial events expect that, and the plain
// cache does not give it.
type createAndSee struct{ storage.Interface }

func (c createAndSee) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := c.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, lookPeriod, noticeTime, true, func(ctx context.Context) (bool, error) {
		cached := NewPod()
		err := c.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, cached)
		if storage.IsNotFound(err) {
			return false, nil
		}
		return apiequality.Semantic.DeepEqual(cached, out), err
	})
}
