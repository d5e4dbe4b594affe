package decorator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// byHand runs f with a Feed that has no cache: the test takes its items one by one,
// as a reflector does. f runs with a progress.Watcher and without.
func byHand(t *testing.T, f func(*testing.T, *rig, *spy)) {
	t.Helper()
	for name, tapped := range map[string]bool{"tapped": true, "untapped": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{t: t, memory: memstorage.NewBackend()}
				r.cached, r.writer = r.storage(tapped), r.storage(false)
				var err error
				r.backend, err = NewBackend(Config{Source: freshness.SourceFunc(r.writer.GetCurrentResourceVersion)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(r.closeBackend)
				raw := &spy{Interface: r.cached}
				r.feed, err = r.backend.Feed(raw, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
				if err != nil {
					t.Fatal(err)
				}
				f(t, r, raw)
			})
		})
	}
}

// open is a watch as the reflector of upstream's cache asks for it.
func (r *rig) open(resourceVersion string, initial *bool) watch.Interface {
	r.t.Helper()
	w, err := r.feed.Watch(context.Background(), "/pods/", cacheOptions(resourceVersion, initial))
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func cacheOptions(resourceVersion string, initial *bool) storage.ListOptions {
	opts := everything(resourceVersion)
	opts.Predicate.AllowWatchBookmarks, opts.ProgressNotify, opts.RecordTimestamps = true, true, true
	opts.SendInitialEvents = initial
	return opts
}

// tapped says whether the storage has a progress.Watcher.
func (r *rig) tapped() bool { return r.feed.tapped.Load() }

// want takes the next items of a watch and compares them; "nothing" and "closed"
// say how it goes on.
func want(t *testing.T, w watch.Interface, items ...string) {
	t.Helper()
	for i, item := range items {
		settled()
		got := "nothing"
		select {
		case event, ok := <-w.ResultChan():
			if got = "closed"; ok {
				got = short(event)
			}
		default:
		}
		if got != item {
			t.Fatalf("item %d is %q, want %q of %q", i, got, item, items)
		}
	}
}

func (r *rig) wantApplied(revision uint64) {
	r.t.Helper()
	settled()
	if got := r.feed.stream.Revision(); got != revision {
		r.t.Errorf("the cache is taken to have %d, want %d", got, revision)
	}
}

// TestFill: during the first fill nothing is dropped, added or taken for proved; the
// bookmark that ends it comes once, and proves the fill when it was applied.
func TestFill(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		r.put("b")
		r.put("a")
		r.memory.Bump()
		w := r.open("", new(true))
		want(t, w, "ADDED a@3", "ADDED b@2")
		r.wantApplied(0)
		want(t, w, "END 4")
		r.wantApplied(0)
		want(t, w, "BOOKMARK @4") // the echo
		r.wantApplied(4)
		want(t, w, "nothing")
	})
}

// TestFillThenEvents: events that follow the fill at once do not wait for an echo.
func TestFillThenEvents(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		r.put("a")
		w := r.open("", new(true))
		r.put("b")
		want(t, w, "ADDED a@2", "END 2")
		r.wantApplied(0)
		settled()
		// The echo and the event are both on offer; either may come first.
		if event := <-w.ResultChan(); event.Type == watch.Bookmark {
			want(t, w, "ADDED b@3")
		} else if got := short(event); got != "ADDED b@3" {
			t.Fatalf("got %q", got)
		}
		r.wantApplied(2)
	})
}

// TestFillIsNotKicked: there is nothing to ask for before the fill has ended.
func TestFillIsNotKicked(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		r.put("a")
		r.cached.Hold()
		w := r.open("", new(true))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waited := make(chan error)
		go func() { waited <- r.feed.stream.Wait(ctx, 3) }()
		if err := <-waited; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if calls := r.cached.Calls(); calls.Kicks+calls.Progress != 0 {
			t.Errorf("asked for progress %d times during the fill", calls.Kicks+calls.Progress)
		}
		r.cached.Release()
		want(t, w, "ADDED a@2", "END 2")
	})
}

// TestEvents: what an event proves depends on whether anybody counts the events of
// its revision.
func TestEvents(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1", "nothing")
		r.wantApplied(1)
		r.memory.Bump()
		r.put("a") // at 3
		if !r.tapped() {
			want(t, w, "BOOKMARK @2") // the event proves what is below it
		}
		want(t, w, "ADDED a@3")
		if r.tapped() {
			r.wantApplied(1)
			want(t, w, "BOOKMARK @3")
			r.wantApplied(3)
		} else {
			r.wantApplied(2)
		}
		want(t, w, "nothing")

		r.put("a", "b") // at 4, two events
		want(t, w, "MODIFIED a@4")
		r.wantApplied(3)
		want(t, w, "ADDED b@4")
		r.wantApplied(3)
		if r.tapped() {
			want(t, w, "BOOKMARK @4")
			r.wantApplied(4)
		}
		want(t, w, "nothing")
		r.cached.SendProgress(4)
		if !r.tapped() {
			want(t, w, "BOOKMARK @4", "BOOKMARK @4")
			r.wantApplied(4)
		}
		want(t, w, "nothing")
	})
}

// TestAppliedIsReached: the cache is never taken to have a revision whose number it
// does not answer under yet. It has that of an item when it takes the next one.
func TestAppliedIsReached(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		last, reached := uint64(1), uint64(1)
		changes := []func(){
			func() { r.memory.Bump() }, // a write to another resource
			func() { r.put("a") },
			func() { r.put("a", "b") },
			func() { r.cached.SendProgress(r.memory.Bump()) },
		}
		for n := range 256 { // all orders of four
			for range 4 {
				changes[n%4]()
				n /= 4
			}
			for settled(); ; settled() {
				var event watch.Event
				select {
				case event = <-w.ResultChan():
				default:
				}
				if event.Object == nil {
					break
				}
				object := must(meta.Accessor(event.Object))
				reached, last = last, must(r.cached.Versioner().ParseResourceVersion(object.GetResourceVersion()))
				settled()
				if applied := r.feed.stream.Revision(); applied > reached {
					t.Fatalf("%s was taken, the cache is at %d and taken to have %d", short(event), reached, applied)
				}
			}
		}
		if last == 1 || r.tapped() && reached != last {
			t.Errorf("it ends at %d and %d", last, reached)
		}
	})
}

// TestBookmarkBelow: a bookmark below what was delivered never reaches the cache,
// which would go back to it.
func TestBookmarkBelow(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		r.put("a")
		r.cached.SendProgress(2)
		received(w)
		r.wantApplied(2)
		r.cached.SendProgress(1)
		want(t, w, "nothing")
		if got := count(t, r.feed.observe.dropped); got != 1 {
			t.Errorf("%v bookmarks were counted as dropped, want 1", got)
		}
		r.cached.SendProgress(3)
		for _, item := range shorts(received(w)) {
			if item != "BOOKMARK @3" {
				t.Errorf("got %q", item)
			}
		}
		r.wantApplied(3)
	})
}

// TestProgressWaitsForEvents: progress that is known before the events below it have
// come through the storage is not passed on before them.
func TestProgressWaitsForEvents(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		for range 50 { // whether the event or the progress is taken first is left to chance
			var newest uint64
			for _, name := range []string{"a", "b", "c"} {
				newest = r.put(name)
			}
			r.cached.SendProgress(newest)
			settled() // the events are on their way, and the Feed waits with the first
			at := newest - 3
			for _, event := range received(w) {
				object, err := meta.Accessor(event.Object)
				if err != nil {
					t.Fatal(failureOf(event))
				}
				version, err := r.cached.Versioner().ParseResourceVersion(object.GetResourceVersion())
				if err != nil || version < at || event.Type != watch.Bookmark && version != at+1 {
					t.Fatalf("%s came after revision %d", short(event), at)
				}
				at = version
			}
			r.wantApplied(newest)
		}
	})
}

// TestRewatchInsideRevision: a reflector that goes on from the middle of a revision
// gets the rest of it, and nothing twice, however often it is cut.
func TestRewatchInsideRevision(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, raw *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		r.put("a", "b", "c", "d")
		want(t, w, "ADDED a@2", "ADDED b@2")
		w.Stop()
		w = r.open("2", nil)
		want(t, w, "ADDED c@2")
		w.Stop()
		w = r.open("2", nil)
		want(t, w, "ADDED d@2")
		r.wantApplied(1)
		if r.tapped() {
			want(t, w, "BOOKMARK @2")
			r.wantApplied(2)
		}
		want(t, w, "nothing")
		if got, wanted := raw.asked(), []string{"watch 1", "watch 1", "watch 1"}; !slices.Equal(got, wanted) {
			t.Errorf("the storage was asked %q, want %q", got, wanted)
		}
	})
}

// TestRewatchAfterRevision: of a revision that was delivered whole nothing comes
// again.
func TestRewatchAfterRevision(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, raw *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		r.put("a", "b")
		r.put("c")
		want(t, w, "ADDED a@2", "ADDED b@2", "ADDED c@3")
		w.Stop()
		w = r.open("3", nil)
		if r.tapped() {
			want(t, w, "BOOKMARK @3") // c was all of it
		}
		want(t, w, "nothing")
		r.put("d")
		want(t, w, "ADDED d@4")
		r.wantApplied(3)
	})
}

// TestRewatchAfterList: a list of everything is whole, also at a revision of which
// the watch before had brought a part.
func TestRewatchAfterList(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, raw *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		r.put("a", "b")
		want(t, w, "ADDED a@2")
		w.Stop()
		if _, err := list(t.Context(), r.feed, everything("")); err != nil {
			t.Fatal(err)
		}
		w = r.open("2", nil)
		want(t, w, "BOOKMARK @2", "nothing")
		r.wantApplied(2)
	})
}

// TestOldWatchIsCut: only the newest watch of a cache counts.
func TestOldWatchIsCut(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		old := r.open("1", nil)
		want(t, old, "BOOKMARK @1")
		r.put("a")
		settled() // the event is on offer
		r.cached.Hold()
		w := r.open("1", nil)
		want(t, old, "closed")
		want(t, w, "BOOKMARK @1")
		r.cached.Release()
		want(t, w, "ADDED a@2")
	})
}

// TestOvertaken: a watch on which progress comes before the events below it has made
// the cache answer for what it did not have. It ends with 410, so that the cache
// fills anew.
func TestOvertaken(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		time.Sleep(untappedAfter)
		r.cached.OvertakeProgress(true)
		r.cached.Hold()
		r.put("a")
		settled() // it has left the queue
		r.put("b")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go r.feed.stream.Wait(ctx, 3)
		settled()
		r.cached.Release()
		want(t, w, "ADDED a@2")
		for {
			settled()
			event, open := <-w.ResultChan()
			if !open {
				t.Fatal("the watch ended without an ERROR")
			}
			if event.Type == watch.Error {
				if err := failureOf(event); !apierrors.IsResourceExpired(err) {
					t.Errorf("the watch ended with %v, want 410", err)
				}
				break
			}
			if event.Type != watch.Bookmark {
				t.Fatalf("got %q after the progress that is above it", short(event))
			}
		}
		want(t, w, "closed")
		if got := count(t, r.feed.observe.breaches); got != 1 {
			t.Errorf("%v breaches were counted, want 1", got)
		}
	})
}

// TestRecordTimes: the wrappers in which upstream measures its latency stay on.
func TestRecordTimes(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		r.put("a")
		settled()
		event := <-w.ResultChan()
		if _, wrapped := event.Object.(storage.WatchEventWithRecordTime); !wrapped {
			t.Errorf("the event of %T has lost its wrapper", event.Object)
		}
	})
}

// TestQuiet: a quiet Feed delivers nothing, and does not end the watch, from which the
// cache would try to recover.
func TestQuiet(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1", "nothing")
		r.put("a")
		want(t, w, "ADDED a@2")
		r.put("b")
		settled() // it is on its way to the cache
		r.feed.Quiet()
		r.feed.Quiet()
		r.put("c")
		want(t, w, "nothing", "nothing")
		w.Stop()
		want(t, w, "closed")
	})
}
