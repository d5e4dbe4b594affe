package watchcache

import (
	"io"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// anyCodec encodes nothing; no object is.
type anyCodec struct{ runtime.Codec }

func (anyCodec) Encode(runtime.Object, io.Writer) error { return nil }

// TestOrder: each layer is built on the ones before, and ended before they are. The feed is quiet
// before the cache is stopped, which hangs at times where it is not.
func TestOrder(t *testing.T) {
	data := memstorage.NewBackend()
	t.Cleanup(data.Close)
	raw, err := memstorage.New(data, memstorage.Config{Prefix: "/pods/", New: func() runtime.Object { return &example.Pod{} }})
	if err != nil {
		t.Fatal(err)
	}
	backend, err := decorator.NewBackend(decorator.Config{Source: freshness.SourceFunc(raw.GetCurrentResourceVersion), Pulse: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	var l layers
	defer func() { l.end() }()
	if _, err := l.build(backend, raw, cacher.Config{
		Versioner: raw.Versioner(), GroupResource: schema.GroupResource{Resource: "pods"}, ResourcePrefix: "/pods/", Codec: anyCodec{},
		KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr,
		NewFunc:      func() runtime.Object { return &example.Pod{} }, NewListFunc: func() runtime.Object { return &example.PodList{} },
	}, Options{}); err != nil {
		t.Fatal(err)
	}
	var built []string
	for _, layer := range l {
		built = append(built, layer.name)
	}
	if want := []string{"feed", "cache", "watch", "store", "checker"}; !slices.Equal(built, want) {
		t.Errorf("got %v, want %v", built, want)
	}
}
