package apiserver

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

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
	assert.Equal(t, []string{"transport", "connection", "client", "compactor", "healing"}, built)
	delegator, ok := r.store.Store().Unwrap().(*cacher.CacheDelegator)
	require.True(t, ok, "%T", r.store.Store().Unwrap())
	require.NotNil(t, delegator)
	r.destroy()
	r.destroy()
	slices.Reverse(built)
	assert.Equal(t, built, ended)
}

// The cache works with the functions that the registry has given.
func TestCacheGetsTheRegistrysFunctions(t *testing.T) {
	etcd := startEtcd(t)
	b := newBackends(t, Config{})
	var keyed, attributed, indexed atomic.Int64
	s := podSpec(storageConfig(etcd.Endpoints()...), podPrefix)
	keyFunc := s.keyFunc
	s.keyFunc = func(obj runtime.Object) (string, error) {
		keyed.Add(1)
		return keyFunc(obj)
	}
	s.attrs = func(obj runtime.Object) (labels.Set, fields.Set, error) {
		attributed.Add(1)
		return storage.DefaultNamespaceScopedAttr(obj)
	}
	s.indexers = &cache.Indexers{"l:name": func(any) ([]string, error) {
		indexed.Add(1)
		return []string{"a"}, nil
	}}
	r, err := b.open(s)
	require.NoError(t, err)
	read(t, r, podPrefix)
	require.NoError(t, r.store.Create(t.Context(), podPrefix+"/ns/a", pod("ns", "a"), nil, 0))
	read(t, r, podPrefix)
	for name, calls := range map[string]*atomic.Int64{"key": &keyed, "attributes": &attributed, "indexer": &indexed} {
		assert.Positive(t, calls.Load(), name)
	}
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
		assert.False(t, c.ranges["/registry/rvfloor/sentinel"])
	}
	assert.True(t, read && wrote)
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
