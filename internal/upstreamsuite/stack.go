package upstreamsuite

import (
	"testing"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"
)

// NewRaw builds upstream's etcd storage over client, with the compactor that tells it of compactions; both end with the test.
func NewRaw(t testing.TB, client *kubernetes.Client, opts SetupOptions) storage.Interface {
	t.Helper()
	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil) // 0: it watches, and never compacts by itself
	t.Cleanup(compactor.Stop)
	versioner := storage.APIObjectVersioner{}
	raw, err := etcd3.New(client, compactor, opts.Codec, NewPod, NewPodList, PathPrefix, ResourcePrefix, GroupResource,
		opts.Transformer, etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(opts.Codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return raw
}

// NewCache builds upstream's Cacher and CacheDelegator over raw and waits until the cache is ready; both end with the test.
func NewCache(t testing.TB, raw storage.Interface, opts SetupOptions) *cacher.CacheDelegator {
	t.Helper()
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             raw,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       GroupResource,
		EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix:      ResourcePrefix,
		KeyFunc:             opts.KeyFunc,
		GetAttrsFunc:        opts.GetAttrs,
		NewFunc:             NewPod,
		NewListFunc:         NewPodList,
		IndexerFuncs:        opts.IndexerFuncs,
		Indexers:            &opts.Indexers,
		Codec:               opts.Codec,
		Clock:               clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := c.Wait(t.Context()); err != nil {
		t.Fatalf("cache not ready: %v", err)
	}
	delegator := cacher.NewCacheDelegator(c, raw)
	t.Cleanup(delegator.Stop)
	return delegator
}

// FirstRead waits until the cache of store is ready, and reads the newest list: what a store writes for its first floor is then
// written, and a case may count revisions. Such writes come after the cache was filled; some checks watch from the revision
// before the first write.
func FirstRead(t testing.TB, store storage.Interface) {
	t.Helper()
	lookFor(t.Context(), t, "the cache to be ready", func() bool { return store.ReadinessCheck() == nil })
	if err := store.GetList(t.Context(), ResourcePrefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, NewPodList()); err != nil {
		t.Fatalf("first list: %v", err)
	}
}
