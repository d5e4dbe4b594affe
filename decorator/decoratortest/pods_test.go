package decoratortest_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

const prefix = "/pods/"

var (
	scheme = runtime.NewScheme()
	codec  = serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
	pods   = schema.GroupResource{Resource: "pods"}
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	memstorage.SupportProgress()
	klog.SetLogger(klog.Logger{}) // breaches are provoked here
}

func newPod() runtime.Object  { return &example.Pod{} }
func newPods() runtime.Object { return &example.PodList{} }

// podHarness is what all our harnesses have: pods, and a Store over them.
type podHarness struct {
	store, writer storage.Interface
}

func (h *podHarness) Store() storage.Interface  { return h.store }
func (h *podHarness) Writer() storage.Interface { return h.writer }
func (h *podHarness) NewList() runtime.Object   { return newPods() }

func (h *podHarness) NewObject(namespace, name string) runtime.Object {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func (h *podHarness) Key(namespace, name string) string {
	if name == "" {
		return prefix + namespace
	}
	return prefix + namespace + "/" + name
}

// holders are the three helpers: with them in it, a harness has all methods that Run
// knows but those that need a backend.
type holders struct {
	*decoratortest.HoldableWatch
	reads *decoratortest.HoldableSource
	lists *decoratortest.ReplayCache
}

func (h holders) HoldReads() <-chan struct{} { return h.reads.HoldReads() }
func (h holders) ReleaseReads()              { h.reads.ReleaseReads() }
func (h holders) ReplayList()                { h.lists.ReplayList() }

// compose puts a Store over a cacher over raw, with the helpers between. Without a
// Feed it is as if somebody else had built the cache.
func compose(t *testing.T, raw storage.Interface, source freshness.Source, withFeed bool) (storage.Interface, holders) {
	t.Helper()
	h := holders{HoldableWatch: decoratortest.NewHoldableWatch(raw), reads: decoratortest.NewHoldableSource(source)}
	backend, err := decorator.NewBackend(decorator.Config{Source: h.reads})
	if err != nil {
		t.Fatal(err)
	}
	res := decorator.Resource{GroupResource: pods, Prefix: prefix, NewList: newPods, Raw: raw}
	var watched storage.Interface = h.HoldableWatch
	if withFeed {
		if res.Feed, err = backend.Feed(watched, res); err != nil {
			t.Fatal(err)
		}
		watched = res.Feed
	}
	cache, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: watched, Versioner: storage.APIObjectVersioner{}, GroupResource: pods,
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: prefix,
		KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr, NewFunc: newPod, NewListFunc: newPods, Codec: codec,
	})
	if err != nil {
		t.Fatal(err)
	}
	delegator := cacher.NewCacheDelegator(cache, raw)
	h.lists = decoratortest.NewReplayCache(delegator)
	store, err := backend.Wrap(h.lists, res)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		// Upstream's Stop waits for ever where its queue of 100 items is full and more
		// come, as they may without a Feed, which has ended its watch.
		h.HoldWatch()
		delegator.Stop()
		cache.Stop()
	})
	if err := cache.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, h
}
