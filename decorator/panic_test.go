package decorator

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
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
		r.store.verifying.Wait()
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
		if d := r.store.direct; len(d.lists) != 0 || len(d.turns) != 0 {
			t.Errorf("%d lists and %d turns are taken", len(d.lists), len(d.turns))
		}
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
		r.put("a")
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
