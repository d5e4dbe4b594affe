package apiserver

import (
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"
	"k8s.io/apiserver/pkg/storage/etcd3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rvfloor/rvfloor/decorator"
)

// generation is the layers of a resource that hold, or stand on, what was read from one history of its backend.
type generation struct {
	transport  *transport
	client     *kubernetes.Client
	compaction etcd3.Compactor

	layers layers
	store  *decorator.Store
}

// compose builds them; see resource.compose. After an error the caller ends the layers.
func (g *generation) compose(s spec) error {
	backend := g.transport.backend
	// Of its own: a raw storage takes the function that counts a cache's keys once.
	raw, closeRaw, err := newRawStorage(g.client, g.compaction, s.config, s.newFunc, s.newListFunc, s.prefix)
	if err != nil {
		return err
	}
	g.layers.add("raw storage", closeRaw)

	described := decorator.Resource{GroupResource: s.config.GroupResource, Prefix: s.prefix, NewList: s.newListFunc, Raw: backend.Shown(raw), Prove: prover(g.client.KV, objectsPrefix(s))}
	feed, err := backend.Feed(raw, described)
	if err != nil {
		return err
	}
	g.layers.add("feed", feed.Close)
	described.Feed, described.SharesItems, described.SharesLists = feed, true, true

	watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             feed,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       s.config.GroupResource,
		EventsHistoryWindow: s.config.EventsHistoryWindow,
		ResourcePrefix:      s.prefix,
		KeyFunc:             s.keyFunc,
		NewFunc:             s.newFunc,
		NewListFunc:         s.newListFunc,
		GetAttrsFunc:        s.attrs,
		IndexerFuncs:        s.triggers,
		Indexers:            s.indexers,
		Codec:               s.config.Codec,
	})
	if err != nil {
		return err
	}
	g.layers.add("cache", watchCache.Stop)
	g.layers.add("watch", feed.Quiet) // before the cache is stopped

	// What Stop ends is the delegator's consistency checker, whose verdict nobody hears; ours takes its place.
	delegator := cacher.NewCacheDelegator(watchCache, described.Raw)
	delegator.Stop()

	g.store, err = backend.Wrap(delegator, described)
	if err != nil {
		return err
	}
	g.layers.add("store", g.store.Close)
	if utilfeature.DefaultFeatureGate.Enabled(features.DetectCacheInconsistency) || consistency.PanicOnCacheInconsistency {
		g.layers.add("checker", check(s, g.store, watchCache, described.Raw))
	}
	return nil
}

// check runs upstream's consistency checker, as a CacheDelegator does, and answers what ends it.
func check(s spec, store *decorator.Store, cache *cacher.Cacher, raw storage.Interface) (end func()) {
	checker := consistency.NewChecker(s.prefix, s.config.GroupResource, s.newListFunc, store.Checked(cache), raw)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		checker.Run(stop)
	}()
	return func() {
		close(stop)
		<-done
	}
}
