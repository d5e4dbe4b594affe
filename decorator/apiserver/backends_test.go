package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/rvfloor/rvfloor/decorator"
)

// newBackends has metrics of its own and is closed with the test.
func newBackends(t *testing.T, cfg Config) *Backends {
	t.Helper()
	if cfg.Registerer == nil {
		cfg.Registerer = prometheus.NewRegistry()
	}
	b, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// The one line: two API servers over one etcd, each with a registry as it is, and the second reads what the first has
// written as soon as it was acknowledged.
func TestOneLine(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	here := newRegistry(t, "pods", newBackends(t, Config{}).RESTOptionsGetter(stock(cfg)))
	there := newRegistry(t, "pods", newBackends(t, Config{}).RESTOptionsGetter(stock(cfg)))
	decorated(t, here)
	list(t, there)

	var want []string
	for _, name := range []string{"a", "b", "c"} {
		create(t, here, name)
		want = append(want, name)
		assert.Equal(t, want, list(t, there))
	}
}

// A resource without a watch cache stays upstream's, and errors of the inner getter go out as they are.
func TestRESTOptionsGetter(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	b := newBackends(t, Config{})

	undecorated := stock(cfg)
	undecorated.decorator = generic.UndecoratedStorage
	s := newRegistry(t, "pods", b.RESTOptionsGetter(undecorated))
	_, ours := s.Storage.Storage.(*decorator.Store)
	assert.False(t, ours)
	assert.Empty(t, b.transports)

	failed := stock(cfg)
	failed.err = errors.New("no such resource")
	_, err := tryRegistry("pods", b.RESTOptionsGetter(failed))
	assert.ErrorIs(t, err, failed.err)

	_, err = tryRegistry("pods", b.RESTOptionsGetter(nil))
	assert.ErrorContains(t, err, "ApplyTo")

	opts, err := b.RESTOptionsGetter(stock(cfg)).GetRESTOptions(storageConfig().GroupResource, nil)
	require.NoError(t, err)
	assert.Equal(t, "pods", opts.ResourcePrefix, "what is not the decorator stays")
	assert.True(t, opts.EnableGarbageCollection)
}

// Each layer is built on the one before and ended in reverse, once.
func TestCompositionOrder(t *testing.T) {
	etcd := startEtcd(t)
	b := newBackends(t, Config{})
	r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), podPrefix))
	require.NoError(t, err)

	var built, ended []string
	for i, l := range r.layers {
		built = append(built, l.name)
		r.layers[i].end = func() {
			ended = append(ended, l.name)
			l.end()
		}
	}
	assert.Equal(t, []string{"transport", "connection", "client", "compactor", "raw storage", "feed", "cache", "delegator", "store"}, built)
	delegator, ok := r.store.Unwrap().(*cacher.CacheDelegator)
	require.True(t, ok, "%T", r.store.Unwrap())
	require.NotNil(t, delegator)

	r.destroy()
	r.destroy()
	slices.Reverse(built)
	assert.Equal(t, built, ended)
}

// The floors' connection carries floors and the watches of caches; no object is read or written over it.
func TestFloorConnection(t *testing.T) {
	etcd := startEtcd(t)
	seen := newWire()
	b := newBackends(t, Config{})
	b.dialOptions = append(b.dialOptions, seen.option())
	pods := newRegistry(t, "pods", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
	services := newRegistry(t, "services", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
	create(t, pods, "a")
	create(t, services, "b")
	assert.Equal(t, []string{"a"}, list(t, pods))
	assert.Equal(t, []string{"b"}, list(t, services))
	_, err := pods.Get(inNamespace(t.Context()), "a", &metav1.GetOptions{})
	require.NoError(t, err)

	on, others := seen.watching("/registry/pods/")
	require.Len(t, on, 1)
	require.NotEmpty(t, others)
	floor := on[0]
	assert.True(t, floor.watches["/registry/services/"])
	assert.True(t, floor.ranges["/registry/rvfloor/sentinel"])
	for _, prefix := range []string{"/registry/pods/", "/registry/services/"} {
		assert.False(t, under(floor.ranges, prefix))
		assert.False(t, under(floor.txns, prefix))
	}
	var read, wrote bool
	for _, c := range others {
		read = read || under(c.ranges, "/registry/pods/")
		wrote = wrote || under(c.txns, "/registry/pods/")
		assert.False(t, under(c.ranges, "/registry/rvfloor/"))
	}
	assert.True(t, read && wrote)
}

// Two clusters have floors of their own: the revision of one says nothing about the other.
func TestTransportsShareNothing(t *testing.T) {
	busy, quiet := startEtcd(t), startEtcd(t)
	for range 50 {
		_, err := busy.Put(t.Context(), "key", "value")
		require.NoError(t, err)
	}
	b := newBackends(t, Config{})
	pods := newRegistry(t, "pods", b.RESTOptionsGetter(stock(storageConfig(busy.Endpoints()...))))
	events := newRegistry(t, "events", b.RESTOptionsGetter(stock(storageConfig(quiet.Endpoints()...))))
	again := newRegistry(t, "services", b.RESTOptionsGetter(stock(storageConfig(quiet.Endpoints()...))))
	create(t, pods, "a")
	create(t, events, "b")
	create(t, again, "c")
	// With the floor of the busy cluster these would wait for a revision that never comes.
	assert.Equal(t, []string{"b"}, list(t, events))
	assert.Equal(t, []string{"c"}, list(t, again))
	assert.Equal(t, []string{"a"}, list(t, pods))

	require.Len(t, b.transports, 2)
	one, two := b.transports[transportIDOf(storageConfig(busy.Endpoints()...).Transport)], b.transports[transportIDOf(storageConfig(quiet.Endpoints()...).Transport)]
	assert.NotSame(t, one.backend, two.backend)
	assert.NotEqual(t, one.name, two.name)
	assert.Equal(t, 1, one.resources)
	assert.Equal(t, 2, two.resources)
}

// The same endpoints with other credentials are a transport of their own, and have a name of their own in metrics.
func TestNamesAreUnique(t *testing.T) {
	ca := newAuthority(t)
	plain := startRecorder(t, nil)
	b := newBackends(t, Config{})
	for i, ca := range []string{"", ca.caFile()} {
		cfg := storageConfig("http://" + plain.addr)
		cfg.Transport.TrustedCAFile = ca
		r, err := b.open(podSpec(cfg, podPrefix))
		require.NoError(t, err)
		assert.Equal(t, plain.addr+[]string{"", "#2"}[i], r.transport.name)
	}
}

// However many resources there are, their transport has one connection for floors and EtcdClients more, and one compactor;
// the last resource to go takes them along. A second round starts afresh.
func TestResourcesComeAndGo(t *testing.T) {
	etcd := startEtcd(t)
	var conns trackedConns
	cfg := storageConfig(etcd.Endpoints()...)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	b := newBackends(t, Config{EtcdClients: 3})
	prefixes := []string{"/pods", "/services", "/secrets", "/nodes", "/leases", "/jobs", "/roles", "/tasks"}
	round := func() {
		var open []*resource
		for _, prefix := range prefixes {
			r, err := b.open(podSpec(cfg, prefix))
			require.NoError(t, err)
			open = append(open, r)
		}
		for i, r := range open {
			read(t, r, prefixes[i])
		}
		assert.Equal(t, 1, goroutinesIn(t, compactLoop))
		assert.Equal(t, []int{3, 3, 2}, open[0].transport.clients.stores, "the stores are spread")
		for i, r := range open {
			if i == len(open)-1 {
				assert.Len(t, b.transports, 1)
			}
			r.destroy()
		}
		assert.Empty(t, b.transports)
		assert.Zero(t, goroutinesIn(t, compactLoop))
	}
	round()
	made, open := conns.counts()
	firstRound := made
	assert.GreaterOrEqual(t, made, 4)
	assert.Zero(t, open)

	before := goleak.IgnoreCurrent()
	round()
	made, open = conns.counts()
	assert.Equal(t, 4, made-firstRound, "the feature check of the endpoint, a connection of its own for a moment, was done")
	assert.Zero(t, open)
	goleak.VerifyNone(t, before)
}

// Close ends everything once; what is called afterwards does no harm.
func TestClose(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	var conns trackedConns
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	warm := newBackends(t, Config{})
	_, err := warm.open(podSpec(cfg, podPrefix))
	require.NoError(t, err)
	require.NoError(t, warm.Close())
	before := goleak.IgnoreCurrent()

	b := newBackends(t, Config{})
	pods, err := b.open(podSpec(cfg, podPrefix))
	require.NoError(t, err)
	services, err := b.open(podSpec(cfg, "/services"))
	require.NoError(t, err)
	read(t, pods, podPrefix)
	services.destroy()
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() { assert.NoError(t, b.Close()) })
		closing.Go(pods.destroy)
	}
	closing.Wait()
	_, open := conns.counts()
	assert.Zero(t, open)
	pods.destroy()
	services.destroy()
	assert.Error(t, tryRead(t, pods, podPrefix))
	_, err = b.open(podSpec(cfg, podPrefix))
	assert.ErrorIs(t, err, decorator.ErrClosed)
	goleak.VerifyNone(t, before)
}

// Close does not wait for a dial that hangs.
func TestCloseEndsDialing(t *testing.T) {
	cfg := storageConfig("http://etcd.invalid:2379")
	dialing := make(chan struct{}, 10)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialing <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil
	}
	before := goleak.IgnoreCurrent()
	b := newBackends(t, Config{})
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := b.open(podSpec(cfg, podPrefix))
			errs <- err
		}()
	}
	<-dialing
	require.NoError(t, b.Close())
	for range cap(errs) {
		assert.ErrorIs(t, <-errs, decorator.ErrClosed)
	}
	assert.Empty(t, b.transports)
	goleak.VerifyNone(t, before)
}

// Resources of two transports come and go from many goroutines, and nothing is left.
func TestChurn(t *testing.T) {
	clusters := []*clientv3.Client{startEtcd(t), startEtcd(t)}
	var conns trackedConns
	lookup := func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	b := newBackends(t, Config{})
	var churning sync.WaitGroup
	for i := range 8 {
		cfg := storageConfig(clusters[i%2].Endpoints()...)
		cfg.Transport.EgressLookup = lookup
		churning.Go(func() {
			for range 5 {
				r, err := b.open(podSpec(cfg, fmt.Sprintf("/pods%d", i)))
				if assert.NoError(t, err) {
					r.destroy()
				}
			}
		})
	}
	churning.Wait()
	assert.Empty(t, b.transports)
	assert.Empty(t, b.resources)
	_, open := conns.counts()
	assert.Zero(t, open)
}

// A resource without a watch cache brings upstream's compactor into the process. Neither stops the other's.
func TestCompactorsLeaveEachOtherAlone(t *testing.T) {
	etcd := startEtcd(t)
	b := newBackends(t, Config{})
	for _, upstreamFirst := range []bool{true, false} {
		opened := map[string]func(){}
		open := func(name string, getter generic.RESTOptionsGetter) {
			s, err := tryRegistry(name, getter)
			require.NoError(t, err)
			opened[name] = s.Destroy
		}
		plain := stock(storageConfig(etcd.Endpoints()...))
		plain.decorator = generic.UndecoratedStorage
		if upstreamFirst {
			open("events", b.RESTOptionsGetter(plain))
			open("pods", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
		} else {
			open("pods", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
			open("events", b.RESTOptionsGetter(plain))
		}
		assert.Equal(t, 2, goroutinesIn(t, compactLoop))
		opened["pods"]()
		assert.Equal(t, 1, goroutinesIn(t, compactLoop))
		opened["events"]()
		assert.Zero(t, goroutinesIn(t, compactLoop))
	}
}

// A cluster that could not be reached is dialed again for the next resource.
func TestFailedTransportIsForgotten(t *testing.T) {
	etcd := startEtcd(t)
	var down bool
	cfg := storageConfig(etcd.Endpoints()...)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		if down {
			return nil, errors.New("down")
		}
		return (&net.Dialer{}).DialContext, nil
	}
	b := newBackends(t, Config{})
	down = true
	_, err := b.open(podSpec(cfg, podPrefix))
	require.ErrorContains(t, err, "down")
	assert.Empty(t, b.transports)
	assert.Empty(t, b.resources)
	down = false
	r, err := b.open(podSpec(cfg, podPrefix))
	require.NoError(t, err)
	r.destroy()
}

// A resource that cannot be composed leaves nothing behind.
func TestBadResources(t *testing.T) {
	etcd := startEtcd(t)
	b := newBackends(t, Config{SentinelKey: new("/registry/pods/sentinel")})
	ok := storageConfig(etcd.Endpoints()...)
	keep, err := b.open(podSpec(ok, "/services"))
	require.NoError(t, err)
	read(t, keep, "/services")
	_, err = etcd.Put(t.Context(), "key", "value")
	require.NoError(t, err)
	read(t, keep, "/services") // its watch has reached this write: no goroutine of its start is still to come
	before := goleak.IgnoreCurrent()
	for name, spoil := range map[string]func(*spec){
		"no config":               func(s *spec) { s.config = nil },
		"etcd2":                   func(s *spec) { s.config.Type = storagebackend.StorageTypeETCD2 },
		"no prefix":               func(s *spec) { s.prefix = "" },
		"prefix without slash":    func(s *spec) { s.prefix = "services" },
		"no list":                 func(s *spec) { s.newListFunc = nil },
		"/registry/pods/sentinel": func(s *spec) { s.prefix = "/pods" },
		"indexers without matching trigger": func(s *spec) {
			s.triggers = storage.IndexerFuncs{"a": nil, "b": nil}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := podSpec(storageConfig(etcd.Endpoints()...), "/tasks")
			spoil(&s)
			_, err := b.open(s)
			require.Error(t, err)
			if name[0] == '/' {
				assert.ErrorContains(t, err, name)
			}
			assert.Equal(t, 1, keep.transport.resources)
			assert.Equal(t, 1, keep.transport.clients.stores[0]+keep.transport.clients.stores[1])
		})
	}
	goleak.VerifyNone(t, before)
}

// Bad values are named before anything is connected.
func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"ZeroVersion":  {ZeroVersion: "Sometimes"},
		"OnUnverified": {OnUnverified: "Guess"},
		"Strategy":     {Strategy: "luck"},
		"MaxStaleness": {ZeroVersion: decorator.ZeroBounded},
		"MaxWait":      {MaxWait: -time.Second},
		"ReadyWait":    {ReadyWait: -time.Second},
		"EtcdClients":  {EtcdClients: -1},
		"SentinelKey":  {SentinelKey: new("sentinel")},
	} {
		b, err := New(cfg)
		assert.Nil(t, b, field)
		assert.ErrorContains(t, err, "Config."+field)
	}
}

// An object that cannot be read any more can be deleted by an API server as it is, and by ours.
func TestUnsafeDeletion(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, true)
	for name, wrap := range map[string]func(generic.RESTOptionsGetter) generic.RESTOptionsGetter{
		"upstream": func(g generic.RESTOptionsGetter) generic.RESTOptionsGetter { return g },
		"ours":     newBackends(t, Config{}).RESTOptionsGetter,
	} {
		t.Run(name, func(t *testing.T) {
			etcd := startEtcd(t)
			s := newRegistry(t, "pods", wrap(stock(storageConfig(etcd.Endpoints()...))))
			create(t, s, "a")
			awaitReady(t, s)
			_, err := etcd.Put(t.Context(), "/registry/pods/ns/a", "junk")
			require.NoError(t, err)

			remove := func(unsafe *bool) error {
				_, _, err := s.GetCorruptObjDeleter().Delete(inNamespace(t.Context()), "a", rest.ValidateAllObjectFunc,
					&metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: unsafe})
				return err
			}
			assert.Error(t, remove(nil))
			assert.NoError(t, remove(new(true)))
			left, err := etcd.KV.Get(t.Context(), "/registry/pods/ns/a")
			require.NoError(t, err)
			assert.Zero(t, left.Count)
		})
	}
}

// The sentinel is written where it was said, or not at all.
func TestSentinelKey(t *testing.T) {
	for name, c := range map[string]struct {
		key  *string
		want string
	}{
		"default": {nil, "/registry/rvfloor/sentinel"},
		"named":   {new("/elsewhere"), "/elsewhere"},
		"none":    {new(""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := startEtcd(t)
			s := newRegistry(t, "pods", newBackends(t, Config{SentinelKey: c.key}).RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
			create(t, s, "a")
			assert.Equal(t, []string{"a"}, list(t, s))
			resp, err := etcd.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
			require.NoError(t, err)
			var keys []string
			for _, kv := range resp.Kvs {
				if key := string(kv.Key); key != "compact_rev_key" && key != "/registry/pods/ns/a" {
					keys = append(keys, key)
				}
			}
			if c.want == "" {
				assert.Empty(t, keys)
			} else {
				assert.Equal(t, []string{c.want}, keys)
			}
		})
	}
}

// read makes sure that the newest data can be read.
func read(t *testing.T, r *resource, prefix string) {
	t.Helper()
	require.Eventually(t, func() bool { return r.store.ReadinessCheck() == nil }, wait, tick)
	require.NoError(t, tryRead(t, r, prefix))
}

func tryRead(t *testing.T, r *resource, prefix string) error {
	opts := storage.ListOptions{Recursive: true, Predicate: everything}
	return r.store.GetList(t.Context(), prefix+"/", opts, newPodList())
}

// podSpec is what a registry of pods asks for.
func podSpec(c *storagebackend.ConfigForResource, prefix string) spec {
	return spec{
		config: c, prefix: prefix, newFunc: newPod, newListFunc: newPodList,
		keyFunc: func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
		attrs:   storage.DefaultNamespaceScopedAttr,
	}
}
