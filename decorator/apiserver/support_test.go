package apiserver

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/apis/example/install"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

const podPrefix = "/pods"

// How long, and how often, a test looks for what another goroutine does in its own time.
const (
	wait = 30 * time.Second
	tick = 5 * time.Millisecond
)

// newScheme knows the example types.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	install.Install(scheme)
	scheme.AddKnownTypes(example.SchemeGroupVersion, newPodList())
	scheme.AddKnownTypes(examplev1.SchemeGroupVersion, &examplev1.PodList{})
	return scheme
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

func pod(namespace, name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// storageConfig is what an API server would hand down for the example's pods.
func storageConfig(endpoints ...string) *storagebackend.ConfigForResource {
	codec := serializer.NewCodecFactory(newScheme()).LegacyCodec(examplev1.SchemeGroupVersion)
	cfg := storagebackend.NewDefaultConfig("/registry", codec)
	cfg.Transport.ServerList = endpoints
	return cfg.ForResource(schema.GroupResource{Group: "example.apiserver.k8s.io", Resource: "pods"})
}

// rawOpener opens the raw storage of pods.
type rawOpener struct {
	name string
	open func(*storagebackend.ConfigForResource) (storage.Interface, func(), error)
}

// upstream is what our raw storages must behave like.
var upstream = rawOpener{"upstream", func(c *storagebackend.ConfigForResource) (storage.Interface, func(), error) {
	s, destroy, err := factory.Create(*c, newPod, newPodList, podPrefix)
	return s, destroy, err
}}

// ours makes the raw storage from the parts that a resource is composed of, with untagged watches.
func ours(extra ...grpc.DialOption) rawOpener {
	return rawOpener{"ours", func(c *storagebackend.ConfigForResource) (storage.Interface, func(), error) {
		if err := checkType(c); err != nil {
			return nil, nil, err
		}
		clients, err := newPool(context.Background(), c.Transport, 1, extra...)
		if err != nil {
			return nil, nil, err
		}
		pooled, release := clients.take()
		client := newStoreClient(pooled, clientv3.NewWatcher(clients.floor))
		compaction, stop := newCompactor(pooled).acquire(c.CompactionInterval)
		s, closeStore, err := newRawStorage(client, compaction, c, newPod, newPodList, podPrefix)
		destroy := sync.OnceFunc(func() {
			stop()
			if closeStore != nil {
				closeStore()
			}
			_ = client.Close()
			release()
			_ = clients.close()
		})
		if err != nil {
			destroy()
			return nil, nil, err
		}
		return s, destroy, nil
	}}
}

// mustOpen opens for the length of a test.
func (o rawOpener) mustOpen(t *testing.T, c *storagebackend.ConfigForResource) storage.Interface {
	t.Helper()
	s, destroy, err := o.open(c)
	require.NoError(t, err, o.name)
	t.Cleanup(destroy)
	return s
}

// awaitGoroutines waits until so many goroutines run a function, given by its full name. One that was joined is still seen
// for a moment.
func awaitGoroutines(t *testing.T, function string, want int) {
	t.Helper()
	var text bytes.Buffer
	assert.Eventually(t, func() bool {
		text.Reset()
		err := pprof.Lookup("goroutine").WriteTo(&text, 2)
		return err == nil && strings.Count(text.String(), "\n"+function+"(") == want
	}, wait, tick, "%d in %s", want, function)
}

// startEtcd runs one member until the test ends, and answers a client of the test's own.
func startEtcd(t *testing.T) *clientv3.Client {
	t.Helper()
	client := etcdlab.Connect(t, etcdlab.Run(t, etcdlab.Config{}), etcdlab.ClientConfig{})
	// It serves calls and watches: no goroutine of the server's start is still to come.
	watch := client.Watch(t.Context(), "ready", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)
	return client
}

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
		keyFunc: func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix+"/", obj) },
		attrs:   storage.DefaultNamespaceScopedAttr,
	}
}

// newServerConfig is a server's before any options were applied.
func newServerConfig() *genericserver.Config {
	return genericserver.NewConfig(serializer.NewCodecFactory(newScheme()))
}
