package watchcache

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rvfloor/rvfloor/decorator"
)

// Options are what a cacher.Config does not say. The zero value is valid.
type Options struct {
	// Prove is Resource.Prove.
	Prove decorator.Prover
	// SharesLists is Resource.SharesLists. Upstream's etcd3 store answers equal lists alike.
	SharesLists bool
}

// Raw returns a raw storage that no cache was built on before, as upstream's takes the function
// that counts a cache's keys once, and what ends it.
type Raw func() (raw storage.Interface, end func(), err error)

// Heal returns the storage that callers are to use: a Store over a watch cache over what raw
// returns, built anew after a restore of the backend, and where the consistency checker has found
// the cache to be wrong. It is closed before the Backend. cfg.Storage stays empty.
func Heal(backend *decorator.Backend, raw Raw, cfg cacher.Config, opts Options) (*decorator.Healing, error) {
	if raw == nil {
		return nil, fmt.Errorf("watchcache: raw of %s is nil; pass a function that returns its raw storage", cfg.GroupResource)
	}
	return backend.Heal(func() (decorator.Generation, error) {
		under, end, err := raw()
		if err != nil {
			return decorator.Generation{}, err
		}
		store, stop, err := Build(backend, under, cfg, opts)
		if err != nil {
			end()
			return decorator.Generation{}, err
		}
		return decorator.Generation{Store: store, Close: func() {
			stop()
			end()
		}}, nil
	})
}

// Build is Heal without healing: after a restore, reads of the Store go on to fail. stop ends all
// that was built, and leaves raw open. It is called once.
func Build(backend *decorator.Backend, raw storage.Interface, cfg cacher.Config, opts Options) (store *decorator.Store, stop func(), err error) {
	var l layers
	store, err = l.build(backend, raw, cfg, opts)
	if err != nil {
		l.end()
		return nil, nil, err
	}
	return store, l.end, nil
}

// layers are ended in the reverse of the order in which they were made.
type layers []layer

type layer struct {
	name string
	end  func()
}

func (l *layers) add(name string, end func()) { *l = append(*l, layer{name, end}) }

func (l layers) end() {
	for _, layer := range slices.Backward(l) {
		layer.end()
	}
}

// build is Build. After an error the caller ends the layers.
func (l *layers) build(backend *decorator.Backend, raw storage.Interface, cfg cacher.Config, opts Options) (*decorator.Store, error) {
	if err := check(cfg); err != nil {
		return nil, fmt.Errorf("watchcache: cacher.Config of %s: %w", cfg.GroupResource, err)
	}
	cfg.EventsHistoryWindow = cmp.Or(cfg.EventsHistoryWindow, cacher.DefaultEventFreshDuration)

	// The feed is there before the cache, which takes method values of its storage when it is
	// made. The delegator writes, and reads past the cache, through the raw storage: the feed has
	// nothing to add to that.
	shown := backend.Shown(raw)
	described := decorator.Resource{GroupResource: cfg.GroupResource, Prefix: cfg.ResourcePrefix, NewList: cfg.NewListFunc, KeyFunc: cfg.KeyFunc, Raw: shown, Prove: opts.Prove, SharesItems: true, SharesLists: opts.SharesLists}
	feed, err := backend.Feed(raw, described)
	if err != nil {
		return nil, err
	}
	l.add("feed", feed.Close)
	described.Feed, cfg.Storage = feed, feed

	cache, err := cacher.NewCacherFromConfig(cfg)
	if err != nil {
		return nil, err
	}
	// A Cacher hangs in Stop while its queue is full and more comes, so the feed is quiet first.
	l.add("cache", cache.Stop)
	l.add("watch", feed.Quiet)

	// What Stop ends is the delegator's consistency checker, whose verdict nobody hears; ours takes
	// its place.
	delegator := cacher.NewCacheDelegator(cache, shown)
	delegator.Stop()

	store, err := backend.Wrap(delegator, described)
	if err != nil {
		return nil, err
	}
	l.add("store", store.Close)
	if utilfeature.DefaultFeatureGate.Enabled(features.DetectCacheInconsistency) || consistency.PanicOnCacheInconsistency {
		checker := consistency.NewChecker(cfg.ResourcePrefix, cfg.GroupResource, cfg.NewListFunc, store.Checked(cache), shown)
		l.add("checker", run(checker.Run))
	}
	return store, nil
}

// run runs what ends with a channel, and returns what ends it.
func run(f func(stop <-chan struct{})) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f(stop)
	}()
	return func() {
		close(stop)
		<-done
	}
}

// check refuses what upstream would panic of, now or with the first object.
func check(cfg cacher.Config) error {
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"NewFunc", cfg.NewFunc == nil}, {"NewListFunc", cfg.NewListFunc == nil}, {"KeyFunc", cfg.KeyFunc == nil},
		{"GetAttrsFunc", cfg.GetAttrsFunc == nil}, {"Codec", cfg.Codec == nil}, {"Versioner", cfg.Versioner == nil},
	} {
		if field.missing {
			return fmt.Errorf("%s is nil; set it", field.name)
		}
	}
	if cfg.Storage != nil {
		return errors.New("the field Storage is set, and the cache is to watch through a Feed; pass the raw storage to Build or Heal alone")
	}
	return nil
}
