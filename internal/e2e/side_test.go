package e2e

import (
	"cmp"
	"context"
	"fmt"
	goruntime "runtime"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/progress"
)

const prefix = "/pods/"

var codec = func() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	return apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion)
}()

// side is one API server's storage of pods: stock, or ours around it.
type side struct {
	storage.Interface
	raw      storage.Interface
	client   *clientv3.Client
	counters *etcdlab.Counters
	backend  *decorator.Backend // ours
	feed     *decorator.Feed
	keyFunc  func(runtime.Object) (string, error) // the cache's; nil: by namespace and name
}

// kubernetesOf is upstream's client over ours, made as kubernetes.New makes it.
func kubernetesOf(c *clientv3.Client) *kubernetes.Client {
	k := &kubernetes.Client{Client: c}
	k.Kubernetes = k
	return k
}

func newPod() runtime.Object  { return &example.Pod{} }
func newPods() runtime.Object { return &example.PodList{} }

func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no pod", obj)
	}
	return labels.Set(pod.Labels), fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName,
	}, nil
}

// connect returns a client of its own that counts, with upstream's raw storage of
// pods over it. Ours has the Watcher in its client.
func connect(t testing.TB, c *etcdlab.Cluster, ours bool, dial ...grpc.DialOption) *side {
	t.Helper()
	s := &side{counters: &etcdlab.Counters{}}
	s.client = etcdlab.Connect(t, c, etcdlab.ClientConfig{Counters: s.counters, DialOptions: dial})
	if ours {
		s.client.Watcher = progress.NewWatcher(s.client)
	}
	versioner := storage.APIObjectVersioner{}
	raw, err := etcd3.New(kubernetesOf(s.client), nil, codec, newPod, newPods, "/registry", prefix,
		schema.GroupResource{Resource: "pods"}, identity.NewEncryptCheckTransformer(), etcd3.NewDefaultLeaseManagerConfig(),
		etcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	s.raw = raw
	return s
}

// newCache puts upstream's cacher over storage, which is the raw one or the feed.
func newCache(t testing.TB, s *side, watched storage.Interface) storage.Interface {
	t.Helper()
	if s.keyFunc == nil {
		s.keyFunc = func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) }
	}
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: watched, Versioner: storage.APIObjectVersioner{}, GroupResource: schema.GroupResource{Resource: "pods"},
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: prefix,
		KeyFunc: s.keyFunc, GetAttrsFunc: podAttrs, NewFunc: newPod, NewListFunc: newPods, Codec: codec,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	d := cacher.NewCacheDelegator(c, s.raw)
	t.Cleanup(d.Stop)
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func newStock(t testing.TB, c *etcdlab.Cluster, dial ...grpc.DialOption) *side {
	t.Helper()
	s := connect(t, c, false, dial...)
	s.Interface = newCache(t, s, s.raw)
	waitSupported(t)
	return s
}

func newOurs(t testing.TB, c *etcdlab.Cluster, cfg decorator.Config, dial ...grpc.DialOption) *side {
	t.Helper()
	return wrapped(t, connect(t, c, true, dial...), cfg, nil)
}

// wrapped is ours over a raw storage, and is told of the cache's KeyFunc where told is not nil.
func wrapped(t testing.TB, s *side, cfg decorator.Config, told func(runtime.Object) (string, error)) *side {
	t.Helper()
	cfg.Source = freshness.NewSentinel(s.client, "/registry/rvfloor/sentinel")
	cfg.Strategy = cmp.Or(cfg.Strategy, decorator.StrategyRequest) // calls are counted, and a probe makes some
	var err error
	if s.backend, err = decorator.NewBackend(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.backend.Close() })
	r := decorator.Resource{GroupResource: schema.GroupResource{Resource: "pods"}, Prefix: prefix, NewList: newPods, Raw: s.raw, KeyFunc: told, SharesLists: true}
	if s.feed, err = s.backend.Feed(s.raw, r); err != nil {
		t.Fatal(err)
	}
	r.Feed = s.feed
	if s.Interface, err = s.backend.Wrap(newCache(t, s, s.feed), r); err != nil {
		t.Fatal(err)
	}
	waitSupported(t)
	return s
}

// waitSupported waits for upstream's process-wide check of etcd's version.
func waitSupported(t testing.TB) {
	t.Helper()
	for !etcdfeature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress) {
		goruntime.Gosched()
	}
}

func (s *side) create(ctx context.Context, namespace, name string, ttl uint64, set map[string]string) (*example.Pod, error) {
	out := &example.Pod{}
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: set}}
	return out, s.raw.Create(ctx, prefix+namespace+"/"+name, pod, out, ttl)
}

func everything(rv string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: rv, Recursive: true, Predicate: storage.Everything}
}
