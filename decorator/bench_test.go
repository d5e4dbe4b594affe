package decorator

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// instant is a Source that answers at once, as Sentinel would from an etcd that takes
// no time.
type instant struct{}

func (instant) Read(context.Context) (freshness.Reading, error) {
	return freshness.Reading{Revision: 1000}, nil
}
func (instant) PromptRead() {}

// instantStorage is an inner storage that answers at once, at the revision asked for.
type instantStorage struct {
	storage.Interface
}

func (instantStorage) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }
func (instantStorage) ReadinessCheck() error        { return nil }

func (instantStorage) GetList(_ context.Context, _ string, opts storage.ListOptions, list runtime.Object) error {
	if opts.ResourceVersion != "0" {
		list.(*example.PodList).ResourceVersion = opts.ResourceVersion
	}
	return nil
}

func (instantStorage) RequestWatchProgress(context.Context) error { return nil }

// benchStore is a Store over instantStorage whose cache has applied all that the source
// will answer. tracing may be nil.
func benchStore(b testing.TB, tracing trace.TracerProvider) *Store {
	backend, err := NewBackend(Config{Source: instant{}, TracerProvider: tracing, Pulse: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = backend.Close() })
	described := Resource{
		GroupResource: schema.GroupResource{Resource: "pods"},
		Prefix:        "/pods/",
		NewList:       func() runtime.Object { return &example.PodList{} },
	}
	feed, err := backend.Feed(instantStorage{}, described)
	if err != nil {
		b.Fatal(err)
	}
	described.Feed = feed
	store, err := backend.Wrap(instantStorage{}, described)
	if err != nil {
		b.Fatal(err)
	}
	feed.applied(1000)
	return store
}

// BenchmarkPassThrough is a method that a Store has nothing to do with.
func BenchmarkPassThrough(b *testing.B) {
	store, ctx := benchStore(b, nil), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := store.RequestWatchProgress(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFreshList is a LIST from a cache that has applied the floor already, by what
// is asked for and beside the inner call alone.
func BenchmarkFreshList(b *testing.B) {
	for _, bench := range []struct {
		name    string
		version string
		inner   bool
		tracing trace.TracerProvider
	}{
		{name: "inner", inner: true},
		{name: "unset"},
		{name: "zero", version: "0"},
		{name: "known", version: "900"},
		{name: "unsampled", tracing: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))},
		{name: "sampled", tracing: sdktrace.NewTracerProvider()},
	} {
		b.Run(bench.name, func(b *testing.B) {
			decorated := benchStore(b, bench.tracing)
			var store storage.Interface = decorated
			if bench.inner {
				store = decorated.inner
			}
			opts := storage.ListOptions{ResourceVersion: bench.version, Predicate: storage.Everything, Recursive: true}
			if bench.version != "" {
				opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
			}
			list := &example.PodList{}
			ctx, cancel := context.WithCancel(b.Context()) // can end, as a request's
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				list.ResourceVersion = "1000"
				if err := store.GetList(ctx, "/pods/", opts, list); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAllocations: what a Store adds to the inner call, tracing off.
func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("not under the race detector; .ci/run has a step without it")
	}
	store := benchStore(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	list := &example.PodList{}
	opts := storage.ListOptions{Predicate: storage.Everything, Recursive: true}
	for name, bar := range map[string]struct {
		call func() error
		most float64
	}{
		"pass-through": {func() error { return store.RequestWatchProgress(ctx) }, 0},
		"a fresh LIST": {func() error { return store.GetList(ctx, "/pods/", opts, list) }, 5},
		"a known N":    {func() error { o := opts; o.ResourceVersion = "900"; return store.GetList(ctx, "/pods/", o, list) }, 1},
	} {
		got := testing.AllocsPerRun(1000, func() {
			list.ResourceVersion = "1000"
			if err := bar.call(); err != nil {
				t.Fatal(err)
			}
		})
		if got > bar.most {
			t.Errorf("%s: %v allocations, at most %v", name, got, bar.most)
		}
	}
}
