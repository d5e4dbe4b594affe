package decorator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/guard"
)

// TestPilotOutlivesAPanic: the cache that somebody else built panics when it is asked
// for its revision, on the pilot's goroutine. It is asked again.
func TestPilotOutlivesAPanic(t *testing.T) {
	var panics atomic.Int32
	s := setup{feedless: true, inner: func(inner storage.Interface) storage.Interface {
		cache := &spy{Interface: inner}
		cache.onList = func(_ context.Context, opts storage.ListOptions, _ runtime.Object, pass func() error) error {
			if !opts.Recursive && panics.CompareAndSwap(0, 1) {
				panic("boom")
			}
			return pass()
		}
		return cache
	}}
	bubble(t, s, func(t *testing.T, r *rig) {
		r.put("a")
		if pods, err := list(t.Context(), r.store, everything("")); err != nil || len(pods.Items) != 1 {
			t.Errorf("got %q, %v", names(pods), err)
		}
		if panics.Load() != 1 {
			t.Error("nothing panicked")
		}
	})
}

// TestShadowOutlivesAPanic: what is verified beside a call may panic, and is counted.
func TestShadowOutlivesAPanic(t *testing.T) {
	bubble(t, setup{cfg: Config{Shadow: true}}, func(t *testing.T, r *rig) {
		r.store.inner = panicky{r.inner}
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Error(err)
		}
		r.store.verifying.running.Wait()
		if n := r.reads(verbList, routeFloor, outcomeError); n != 1 {
			t.Errorf("%v reads were counted as errors, want 1", n)
		}
		if n := len(r.store.shadows); n != 0 {
			t.Errorf("%d places are lost", n)
		}
	})
}

type panicky struct{ storage.Interface }

func (panicky) ReadinessCheck() error { panic("boom") }

// TestDirectOutlivesAPanic: callers of a direct list that panics get an error, and
// no place is lost.
func TestDirectOutlivesAPanic(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		pass := gate.onList
		gate.onList = func(context.Context, storage.ListOptions, runtime.Object, func() error) error { panic("boom") }
		for range 2 * maxDirect {
			if _, err := list(t.Context(), r.store, everything("")); err == nil || !strings.Contains(err.Error(), "boom") {
				t.Fatalf("got %v", err)
			}
		}
		gate.onList = pass
		close(gate.release)
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Error(err)
		}
		r.checkIdle()
	})
}

// TestFeedOutlivesAPanic: an event that cannot be handled ends the cache's watch with
// an error, and the cache fills anew.
func TestFeedOutlivesAPanic(t *testing.T) {
	var panics atomic.Int32
	s := setup{raw: func(raw storage.Interface) storage.Interface { return badVersioner{raw, &panics} }}
	bubble(t, s, func(t *testing.T, r *rig) {
		panics.Store(1)
		r.put("a")
		settled()
		if panics.Load() != 0 {
			t.Fatal("nothing panicked")
		}
		if pods, err := list(t.Context(), r.store, everything("")); err != nil || len(pods.Items) != 1 {
			t.Errorf("got %q, %v", names(pods), err)
		}
	})
}

// badVersioner panics for the next so many revisions that the Feed's watch reads.
type badVersioner struct {
	storage.Interface
	left *atomic.Int32
}

func (b badVersioner) Versioner() storage.Versioner {
	if b.left.CompareAndSwap(1, 0) {
		panic("boom")
	}
	return b.Interface.Versioner()
}

// TestBookmarkWatchOutlivesAPanic: an event that cannot be handled ends the client's
// watch with an error.
func TestBookmarkWatchOutlivesAPanic(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		opts := everything("")
		opts.Predicate.AllowWatchBookmarks = true
		r.store.router.versioner = panickyVersioner{r.store.router.versioner}
		w, err := r.store.Watch(t.Context(), "/pods/", opts)
		if err != nil {
			t.Fatal(err)
		}
		r.put("a", "b") // events are looked at when there are several of a revision
		events := received(w)
		if len(events) != 1 || failureOf(events[0]) == nil || !strings.Contains(failureOf(events[0]).Error(), "boom") {
			t.Errorf("got %q", shorts(events))
		}
		want(t, w, "closed")
	})
}

type panickyVersioner struct{ storage.Versioner }

func (v panickyVersioner) ParseResourceVersion(resourceVersion string) (uint64, error) {
	if resourceVersion != "" {
		panic("boom")
	}
	return v.Versioner.ParseResourceVersion(resourceVersion)
}

// TestInnerPanics: an inner storage that panics on the goroutine of its caller, which
// the API server recovers, leaves no waiter, no floor read and no place behind.
func TestInnerPanics(t *testing.T) {
	for _, policy := range []OnUnverified{UnverifiedFail, UnverifiedDirect, UnverifiedStale} {
		bubble(t, setup{cfg: Config{OnUnverified: policy, CachedGets: true}}, func(t *testing.T, r *rig) {
			sound := r.store.inner
			for name, call := range map[string]func() error{
				"get": func() error {
					return r.store.Get(t.Context(), "/pods/ns/a", storage.GetOptions{}, newPod())
				},
				"list":  func() error { _, err := list(t.Context(), r.store, everything("")); return err },
				"watch": func() error { _, err := r.store.Watch(t.Context(), "/pods/", everything("")); return err },
			} {
				r.store.inner = panickyReads{sound}
				if err := guard.Call(call); guard.Stack(err) == "" {
					t.Errorf("%s: got %v, want a panic", name, err)
				}
				r.store.inner = sound
				if n := r.store.stream.Waiters(); n != 0 {
					t.Errorf("%s: %d wait", name, n)
				}
			}
			r.put("a")
			if pods, err := list(t.Context(), r.store, everything("")); err != nil || len(pods.Items) != 1 {
				t.Errorf("got %q, %v", names(pods), err)
			}
		})
	}
}

type panickyReads struct{ storage.Interface }

func (panickyReads) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	panic("boom")
}
func (panickyReads) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	panic("boom")
}
func (panickyReads) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	panic("boom")
}

// TestTracerPanics: so does a tracer, for the span of a floor read that its callers share.
func TestTracerPanics(t *testing.T) {
	tracing := &panickyTracing{TracerProvider: sdktrace.NewTracerProvider()}
	bubble(t, setup{cfg: Config{TracerProvider: tracing}}, func(t *testing.T, r *rig) {
		r.put("a")
		tracing.left.Store(2) // callers join another read, once
		if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrNoFloor) || tracing.left.Load() != 0 {
			t.Errorf("got %v, and %d panics too few", err, tracing.left.Load())
		}
		if pods, err := list(t.Context(), r.store, everything("")); err != nil || len(pods.Items) != 1 {
			t.Errorf("got %q, %v", names(pods), err)
		}
	})
}

type panickyTracing struct {
	trace.TracerProvider
	left atomic.Int32
}

func (p *panickyTracing) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	return panickyTracer{p.TracerProvider.Tracer(name, opts...), p}
}

type panickyTracer struct {
	trace.Tracer
	of *panickyTracing
}

func (p panickyTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	if name == spanFloorRead && p.of.left.Add(-1) >= 0 {
		panic("boom")
	}
	p.of.left.Store(max(0, p.of.left.Load()))
	return p.Tracer.Start(ctx, name, opts...)
}

// TestHealingOutlivesPanics: of what builds a cache, fills it and closes it.
func TestHealingOutlivesPanics(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		build := w.healing.build
		var builds, closes atomic.Int32
		w.healing.build = func() (Generation, error) {
			n := builds.Add(1)
			if n == 1 {
				panic("built")
			}
			g, err := build()
			if n == 2 {
				g.Store.inner = panicky{g.Store.inner} // while it is filled
			}
			stop := g.Close
			g.Close = func() {
				stop()
				closes.Add(1)
				panic("closed")
			}
			return g, err
		}
		for range 2 {
			w.restore()
			_, _ = list(t.Context(), w.healing, everything(""))
			time.Sleep(10 * time.Second)
			if got := w.mustList(""); len(got) != 1 {
				t.Errorf("got %v", got)
			}
			w.put("c")
			w.mustList("")
		}
		if b, c := builds.Load(), closes.Load(); b != 4 || c != 2 {
			t.Errorf("%d builds and %d closes, want 4 and 2", b, c)
		}
	})
}

// TestAppendPanics: a witness that panics does not end the pulse.
func TestAppendPanics(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.cfg.Source = panickyWitness{r.backend.cfg.Source}
		p := &pulse{backend: r.backend}
		p.append(t.Context())
		if p.appended == nil || !strings.Contains(p.appended.Error(), "boom") {
			t.Errorf("got %v", p.appended)
		}
	})
}

type panickyWitness struct{ freshness.Source }

func (panickyWitness) Append(context.Context) error { panic("boom") }
