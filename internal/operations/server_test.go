package operations

import (
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/httplab"
)

const (
	// shortest and longest bound MaxWait. etcd gives up by itself what hangs, after some 7 s,
	// which is not to come before requestTimeout.
	shortest, longest = 300 * time.Millisecond, time.Second
	// patience bounds waits for what must happen.
	patience = time.Minute
)

// server is an API server over one etcd member, behind a proxy.
type server struct {
	url     string
	user    string            // of the calls; empty: anonymous
	store   storage.Interface // what it serves
	cluster *etcdlab.Cluster
	proxy   *etcdlab.Proxy
	// maxWait is short so that the tests are, and far above what a read takes on this machine
	// now. What fails, and how, does not depend on it.
	maxWait time.Duration
	etcd    *clientv3.Client // of another member where there is one, and past the proxy
	old     string           // a revision from before the cache was filled
	seen    string           // one that the cache saw, with a write above it
}

func start(t *testing.T, cfg etcdlab.Config) *server {
	t.Helper()
	s := &server{cluster: etcdlab.Run(t, cfg)}
	s.etcd = etcdlab.Connect(t, s.cluster, etcdlab.ClientConfig{Members: []int{cfg.Members / 2}})
	var err error
	if s.proxy, err = etcdlab.NewProxy(s.cluster.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Close)
	early := open(t, s.cluster.Endpoints()[0], patience)
	s.old = create(t, early, "a")
	create(t, early, "b")
	await(t, func() bool { return early.ReadinessCheck() == nil })
	s.maxWait = min(longest, max(shortest, 20*pace(t, early)))

	store := open(t, "http://"+s.proxy.Addr(), s.maxWait)
	await(t, func() bool { return store.ReadinessCheck() == nil })
	s.store = store
	s.seen = create(t, store, "c")
	create(t, store, "d")
	web := httptest.NewServer(httplab.NewHandler(store, httplab.Config{Prefix: "/pods", Timeout: s.requestTimeout()}))
	t.Cleanup(web.Close)
	s.url = web.URL + httplab.PodsPath("default")
	await(t, func() bool { return s.ask(t, func(*server) string { return "" }) == "200" }) // from now on the cache has them
	return s
}

// requestTimeout is the API server's own (60 s by default), for what nothing else ends. Far
// above maxWait, which a process that is too slow stretches up to four times, so that the two are
// told apart.
func (s *server) requestTimeout() time.Duration { return 6 * s.maxWait }

// pace is how long a LIST takes beside as many as the table has rows, at most.
func pace(t *testing.T, store storage.Interface) time.Duration {
	t.Helper()
	began := time.Now()
	for range 3 {
		var lists sync.WaitGroup
		for range calls {
			lists.Go(func() {
				opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
				if err := store.GetList(t.Context(), "/pods", opts, &example.PodList{}); err != nil {
					t.Error(err)
				}
			})
		}
		lists.Wait()
	}
	return time.Since(began) / 3
}

// open makes the storage of pods that an API server would have.
func open(t *testing.T, endpoint string, maxWait time.Duration) storage.Interface {
	t.Helper()
	backends, err := apiserver.New(apiserver.Config{MaxWait: maxWait, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := storagebackend.NewDefaultConfig("/registry", httplab.Codec)
	cfg.Transport.ServerList = []string{endpoint}
	keys := func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) }
	store, _, err := backends.StorageDecorator()(cfg.ForResource(example.Resource("pods")), "/pods", keys,
		httplab.NewPod, httplab.NewPodList, httplab.PodAttrs, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backends.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// create writes a pod and returns its resourceVersion.
func create(t *testing.T, store storage.Interface, name string) string {
	t.Helper()
	pod := &example.Pod{}
	pod.Namespace, pod.Name = "default", name
	out := &example.Pod{}
	if err := store.Create(t.Context(), "/pods/default/"+name, pod, out, 0); err != nil {
		t.Fatal(err)
	}
	return out.ResourceVersion
}

// await asks until ok: for what nobody tells of.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen in time")
		}
	}
}
