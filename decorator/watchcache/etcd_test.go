package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/watchcache"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/progress"
)

const sentinelKey = "/registry/rvfloor/sentinel"

func dial(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialOptions: []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func rawOver(t *testing.T, client *clientv3.Client) storage.Interface {
	t.Helper()
	k := &kubernetes.Client{Client: client}
	k.Kubernetes = k
	versioner := storage.APIObjectVersioner{}
	raw, err := etcd3.New(k, nil, codec, newPod, newPods, "/registry", prefix, pods, identity.NewEncryptCheckTransformer(),
		etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return raw
}

// newEtcdBackend is one that is told nothing but where to read floors.
func newEtcdBackend(t *testing.T, client *clientv3.Client) (*decorator.Backend, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	backend, err := decorator.NewBackend(decorator.Config{Source: freshness.NewSentinel(client, sentinelKey), Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend, registry
}

// byHand wires a Store with the parts of package decorator, and with no Healing.
func byHand(t *testing.T, client *clientv3.Client, watcher bool) (storage.Interface, *prometheus.Registry) {
	t.Helper()
	backend, registry := newEtcdBackend(t, client)
	if watcher {
		client.Watcher = progress.NewWatcher(client)
	}
	raw := rawOver(t, client)
	res := decorator.Resource{GroupResource: pods, Prefix: prefix, NewList: newPods, Raw: raw, SharesItems: true}
	feed, err := backend.Feed(raw, res)
	if err != nil {
		t.Fatal(err)
	}
	res.Feed = feed
	cfg := cacherConfig()
	cfg.Storage, cfg.EventsHistoryWindow = feed, cacher.DefaultEventFreshDuration
	cache, err := cacher.NewCacherFromConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	delegator := cacher.NewCacheDelegator(cache, raw)
	t.Cleanup(func() {
		delegator.Stop()
		feed.Quiet()
		cache.Stop()
	})
	store, err := backend.Wrap(delegator, res)
	if err != nil {
		t.Fatal(err)
	}
	return store, registry
}

// healed is the documented way.
func healed(t *testing.T, client *clientv3.Client) storage.Interface {
	t.Helper()
	backend, _ := newEtcdBackend(t, client)
	client.Watcher = progress.NewWatcher(client)
	store, err := watchcache.Heal(backend, func() (storage.Interface, func(), error) {
		return rawOver(t, client), func() {}, nil
	}, cacherConfig(), watchcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// set writes a value to a pod, and returns the one that the update was given to begin with.
func set(ctx context.Context, s storage.Interface, name, value string) (was string, err error) {
	err = s.GuaranteedUpdate(ctx, prefix+"ns/"+name, &example.Pod{}, true, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		p := o.(*example.Pod)
		was = p.Labels["value"]
		p.Namespace, p.Name, p.Labels = "ns", name, map[string]string{"value": value}
		return p, nil
	}), nil)
	return was, err
}

func mustSet(t *testing.T, s storage.Interface, name, value string) {
	t.Helper()
	if _, err := set(t.Context(), s, name, value); err != nil {
		t.Fatal(err)
	}
}

// until calls f until it is true, or the test's time is over.
func until(t *testing.T, f func() bool) {
	t.Helper()
	for !f() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("it never was")
		}
	}
}

// TestNoWatcher: over etcd without a progress.Watcher each LIST is right, by the storage, and
// the mistake is told of once.
func TestNoWatcher(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	writer := rawOver(t, dial(t, cluster.Endpoints()[0]))
	store, registry := byHand(t, dial(t, cluster.Endpoints()[0]), false)
	until(t, func() bool { return store.ReadinessCheck() == nil })
	for n := range 20 {
		value := fmt.Sprint(n)
		mustSet(t, writer, "a", value)
		if got, err := values(t, store, "0"); err != nil || got["a"] != value {
			t.Fatalf("%v, %v; %s was written", got, err, value)
		}
	}
	if n := breaches(t, registry); n != 1 {
		t.Errorf("%v breaches were told of", n)
	}
}

// TestRestore: after a restore in which one revision is given to an object twice, no update
// begins with what is lost; wired by hand reads fail from then on, and in the documented way
// they are right again.
func TestRestore(t *testing.T) {
	for _, heals := range []bool{false, true} {
		t.Run(map[bool]string{false: "by hand", true: "Heal"}[heals], func(t *testing.T) {
			cluster := etcdlab.Run(t, etcdlab.Config{Dir: t.TempDir(), Token: "token"})
			proxy, err := etcdlab.NewProxy(cluster.Endpoints()[0])
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(proxy.Close)
			client := dial(t, proxy.Addr())
			var store storage.Interface
			if heals {
				store = healed(t, client)
			} else {
				store, _ = byHand(t, client, true)
			}
			until(t, func() bool { return store.ReadinessCheck() == nil })

			writer := rawOver(t, dial(t, cluster.Endpoints()[0]))
			mustSet(t, writer, "a", "kept")
			if _, err := values(t, store, ""); err != nil { // and the sentinel is there
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "snapshot")
			if err := cluster.Save(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			mustSet(t, writer, "a", "lost")
			if err := freshness.NewSentinel(client, sentinelKey).Append(t.Context()); err != nil { // as each pulse does
				t.Fatal(err)
			}
			if got, err := values(t, store, ""); err != nil || got["a"] != "lost" {
				t.Fatalf("%v, %v", got, err)
			}
			proxy.Cut()
			if err := cluster.Close(); err != nil {
				t.Fatal(err)
			}
			cfg := etcdlab.Config{Dir: t.TempDir(), Token: "token"}
			if err := etcdlab.Restore(file, cfg, 0); err != nil {
				t.Fatal(err)
			}
			cluster = etcdlab.Run(t, cfg)
			writer = rawOver(t, dial(t, cluster.Endpoints()[0]))
			mustSet(t, writer, "a", "written")
			if err := proxy.Retarget(cluster.Endpoints()[0]); err != nil {
				t.Fatal(err)
			}
			proxy.Heal()
			until(t, func() bool {
				was, err := set(t.Context(), store, "a", "updated")
				if err == nil && was != "written" {
					t.Errorf("an update began with %q", was)
				}
				return err == nil
			})
			if !heals {
				if _, err := values(t, store, ""); !errors.As(err, new(*decorator.RewoundError)) {
					t.Errorf("LIST: %v", err)
				}
				return
			}
			var got map[string]string
			until(t, func() bool {
				got, err = values(t, store, "")
				return err == nil
			})
			if !maps.Equal(got, map[string]string{"a": "updated"}) {
				t.Errorf("LIST: %v", got)
			}
		})
	}
}
