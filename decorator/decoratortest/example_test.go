package decoratortest_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/freshness"
)

// exampleHarness is the least that Run needs.
type exampleHarness struct {
	*decoratortest.HoldableWatch // HoldWatch and ReleaseWatch
	store, raw                   storage.Interface
}

func (h *exampleHarness) Store() storage.Interface  { return h.store }
func (h *exampleHarness) Writer() storage.Interface { return h.raw }
func (h *exampleHarness) NewList() runtime.Object   { return &example.PodList{} }
func (h *exampleHarness) NewObject(namespace, name string) runtime.Object {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}
func (h *exampleHarness) Key(namespace, name string) string {
	if name == "" {
		return "/pods/"
	}
	return "/pods/" + namespace + "/" + name
}

func newExampleHarness(t *testing.T) decoratortest.Harness {
	raw := newRawStorage(t) // yours
	h := &exampleHarness{HoldableWatch: decoratortest.NewHoldableWatch(raw), raw: raw}
	res := decorator.Resource{
		GroupResource: schema.GroupResource{Resource: "pods"}, Prefix: "/pods/", NewList: h.NewList, Raw: raw,
	}
	backend, err := decorator.NewBackend(decorator.Config{Source: freshness.SourceFunc(raw.GetCurrentResourceVersion)})
	if err != nil {
		t.Fatal(err)
	}
	res.Feed, err = backend.Feed(h.HoldableWatch, res)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: res.Feed, Versioner: raw.Versioner(), GroupResource: res.GroupResource, ResourcePrefix: res.Prefix,
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, Codec: codec,
		KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(res.Prefix, obj) },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr,
		NewFunc:      func() runtime.Object { return &example.Pod{} }, NewListFunc: res.NewList,
	})
	if err != nil {
		t.Fatal(err)
	}
	delegator := cacher.NewCacheDelegator(cache, raw)
	t.Cleanup(func() {
		_ = backend.Close() // first: it ends the cache's watch
		delegator.Stop()
		cache.Stop()
	})
	h.store, err = backend.Wrap(delegator, res)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A storage with a cache of pods before it is checked as a test of its own.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestFreshness(t *testing.T)
		decoratortest.Run(t, newExampleHarness)
	}
}
