package backends_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/sides"
	"github.com/rvfloor/rvfloor/progress"
)

// unsafe are the modes over which nothing can be promised: reads fail.
var unsafe = []mode{
	{name: "ReadsLag", config: etcd, faults: fdbshim.Faults{ReadsLag: true}},
	{name: "ReadsLagForOthers", config: etcd, faults: fdbshim.Faults{ReadsLagForOthers: true}},
	{name: "ZeroRevision", config: etcd, faults: fdbshim.Faults{ZeroRevision: true}},
	{name: "RevisionPerPrefix", config: fdbshim.Config{LikeEtcd: true, RevisionPerPrefix: true}},
}

// probed is a storage of the parts of package decorator, which is told what a probe saw
// of the backend.
func probed(t *testing.T) sides.Kind { return byHand(t, true) }

// unprobed is the same by a hand that tells it nothing: it has to look by itself.
func unprobed(t *testing.T) sides.Kind { return byHand(t, false) }

func byHand(t *testing.T, tell bool) sides.Kind {
	var ends []func()
	decorate := func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newList func() runtime.Object, attrs storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		var clients []*clientv3.Client
		for range 2 {
			client, err := clientv3.New(clientv3.Config{Endpoints: config.Transport.ServerList})
			if err != nil {
				return nil, nil, err
			}
			ends = append(ends, func() { client.Close() })
			clients = append(clients, client)
		}
		backend, err := decorator.NewBackend(decorator.Config{Source: freshness.NewSentinel(clients[0], "/registry/rvfloor/sentinel")})
		if err != nil {
			return nil, nil, err
		}
		if tell {
			report, err := probe.Observe(t.Context(), probe.Config{Clients: clients})
			if err != nil {
				return nil, nil, err
			}
			backend.SetProperties(report.Properties)
		}
		clients[0].Watcher = progress.NewWatcher(clients[0])
		client, versioner := &kubernetes.Client{Client: clients[0]}, storage.APIObjectVersioner{}
		client.Kubernetes = client
		raw, err := etcd3.New(client, nil, config.Codec, newFunc, newList, config.Prefix, prefix, config.GroupResource, identity.NewEncryptCheckTransformer(),
			etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
		if err != nil {
			return nil, nil, err
		}
		resource := decorator.Resource{GroupResource: config.GroupResource, Prefix: prefix, NewList: newList, Raw: raw}
		if resource.Feed, err = backend.Feed(raw, resource); err != nil {
			return nil, nil, err
		}
		c, err := cacher.NewCacherFromConfig(cacher.Config{Storage: resource.Feed, Versioner: versioner, GroupResource: config.GroupResource,
			ResourcePrefix: prefix, EventsHistoryWindow: cacher.DefaultEventFreshDuration, Codec: config.Codec,
			KeyFunc: keyFunc, GetAttrsFunc: attrs, NewFunc: newFunc, NewListFunc: newList})
		if err != nil {
			return nil, nil, err
		}
		delegator := cacher.NewCacheDelegator(c, raw)
		store, err := backend.Wrap(delegator, resource)
		ends = append(ends, raw.Close, c.Stop, delegator.Stop, func() { _ = backend.Close() })
		return store, func() {}, err
	}
	return func() (generic.StorageDecorator, func() error, error) {
		return decorate, func() error {
			for i := len(ends) - 1; i >= 0; i-- {
				ends[i]()
			}
			return nil
		}, nil
	}
}

// TestNeverStale: over what nothing can be promised no read that has to be verified is
// answered, and each says why.
func TestNeverStale(t *testing.T) { neverStale(t, probed) }

// TestUnprobedNeverStale is TestNeverStale with what a Backend sees by itself.
func TestUnprobedNeverStale(t *testing.T) { neverStale(t, unprobed) }

func neverStale(t *testing.T, kind func(*testing.T) sides.Kind) {
	for _, m := range unsafe {
		t.Run(m.name, func(t *testing.T) {
			database := newStore(t, m.config)
			good := connect(t, serve(t, database, fdbshim.Faults{}))
			server := serve(t, database, m.faults)
			if m.faults.ZeroRevision { // no cache is filled from it, so it is never ready
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if _, _, err := sides.OpenAt(ctx, kind(t), server.Endpoint()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				return
			}
			store := open(t, kind(t), server)
			for store.ReadinessCheck() != nil { // until it has looked, it is answered by the storage
				time.Sleep(time.Millisecond)
			}
			for i := range 20 {
				if _, err := good.Put(t.Context(), sides.ElsewhereKey, ""); err != nil {
					t.Fatal(err)
				}
				for name, read := range verifiedReads(store) {
					if err := read(t.Context()); !errors.Is(err, decorator.ErrRefused) {
						t.Fatalf("%s %d: %v", name, i, err)
					}
				}
			}
		})
	}
}

// verifiedReads are the reads that are not answered unless they are verified.
func verifiedReads(store storage.Interface) map[string]func(context.Context) error {
	list := func(version string) func(context.Context) error {
		return func(ctx context.Context) error {
			return store.GetList(ctx, sides.PodPrefix, sides.Everything(version), &example.PodList{})
		}
	}
	watch := func(version string, initial *bool) func(context.Context) error {
		opts := sides.Everything(version)
		if opts.SendInitialEvents = initial; initial != nil {
			opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
			opts.Predicate.AllowWatchBookmarks = true
		}
		return func(ctx context.Context) error {
			w, err := store.Watch(ctx, sides.PodPrefix, opts)
			if err == nil {
				w.Stop()
			}
			return err
		}
	}
	return map[string]func(context.Context) error{
		"LIST": list(""), "LIST at 0": list("0"), "WATCH": watch("", nil), "WATCH at 0": watch("0", nil),
		"watch-list": watch("", new(true)), "watch-list at 0": watch("0", new(true)),
		"GET at 0": func(ctx context.Context) error {
			return store.Get(ctx, sides.PodKey("a", "pod-0"), storage.GetOptions{ResourceVersion: "0"}, &example.Pod{})
		},
	}
}

// TestProbedLinear is TestLinear with what a probe says of each safe mode, and of one whose
// caches lack what their watches lost, and are not asked.
func TestProbedLinear(t *testing.T) {
	for _, m := range append(safe, mode{name: "LoseEvents", config: etcd, faults: fdbshim.Faults{LoseEvents: true}}) {
		t.Run(m.name, func(t *testing.T) { runLinear(t, m, probed(t), probed(t)) })
	}
}

// TestUnprobedLinear is TestLinear with a Backend that has to look by itself, over what a
// request for progress is not sound on.
func TestUnprobedLinear(t *testing.T) {
	for _, m := range []mode{
		{name: "ProgressAheadOfCatchUp", config: etcd, faults: fdbshim.Faults{ProgressAheadOfCatchUp: true}},
		{name: "ProgressAheadOfLive", config: etcd, faults: fdbshim.Faults{ProgressAheadOfLive: true}},
		{name: "LoseEvents", config: etcd, faults: fdbshim.Faults{LoseEvents: true}},
	} {
		t.Run(m.name, func(t *testing.T) { runLinear(t, m, unprobed(t), unprobed(t)) })
	}
}
