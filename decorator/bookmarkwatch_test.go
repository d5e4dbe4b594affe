package decorator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// marks is what the bookmarks of one watch were like.
type marks struct {
	revisions []uint64
	early     []string // those that came before an event at or below them
	back      []string // those below what had come before
}

// marksOf judges what a watch delivered.
func marksOf(t *testing.T, events []watch.Event) (m marks) {
	t.Helper()
	sent := uint64(0)
	for i, event := range events {
		revision := revisionOf(t, event)
		if event.Type == watch.Bookmark {
			m.revisions = append(m.revisions, revision)
			if revision < sent {
				m.back = append(m.back, fmt.Sprintf("%s after %d", short(event), sent))
			}
			for _, later := range events[i+1:] {
				if later.Type != watch.Bookmark && revisionOf(t, later) <= revision {
					m.early = append(m.early, fmt.Sprintf("%s before %s", short(event), short(later)))
					break
				}
			}
		}
		sent = max(sent, revision)
	}
	return m
}

func revisionOf(t *testing.T, event watch.Event) uint64 {
	t.Helper()
	object, err := meta.Accessor(event.Object)
	if err != nil {
		t.Fatalf("%v: %v", event, failureOf(event))
	}
	revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(object.GetResourceVersion())
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// bookmarksMidway watches through s, from before a revision that changes many objects,
// while raw stops in the middle of it until bookmarks have been sent. The watches are of
// all objects, and of one of which the revision changes something last.
func bookmarksMidway(t *testing.T, r *rig, raw *memstorage.Storage, s storage.Interface) (h *herd, all, last marks) {
	t.Helper()
	h = r.herd(12)
	settled() // a LIST is no proof that stock's cache has all of the herd
	var watches []watch.Interface
	for _, predicate := range []storage.SelectionPredicate{storage.Everything, selecting("", "metadata.name="+h.pods[len(h.pods)-1].Name)} {
		opts := everything(formatRevision(h.before))
		opts.Predicate = predicate
		opts.Predicate.AllowWatchBookmarks = true
		w, err := s.Watch(t.Context(), "/pods/", opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	raw.Hold()
	h.change(r)
	raw.Step(5)
	time.Sleep(65 * time.Second) // each watch gets a bookmark each minute
	raw.Release()
	time.Sleep(65 * time.Second)
	r.put("later")
	time.Sleep(65 * time.Second)
	return h, marksOf(t, received(watches[0])), marksOf(t, received(watches[1]))
}

// TestBookmarksOfWholeRevisions: no bookmark names a revision before its last event.
func TestBookmarksOfWholeRevisions(t *testing.T) {
	for name, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				h, all, last := bookmarksMidway(t, r, r.cached, r.store)
				for name, m := range map[string]marks{"all": all, "last": last} {
					if len(m.early)+len(m.back) > 0 {
						t.Errorf("%s: early: %q, back: %q", name, m.early, m.back)
					}
				}
				// Who has none of the revision is told of what is before; so nobody
				// lags who is filtered.
				if len(last.revisions) == 0 || last.revisions[0] != h.changed-1 {
					t.Errorf("bookmarks at %d, want the first at %d", last.revisions, h.changed-1)
				}
			})
		})
	}
}

// TestStockBookmarksOfParts: the test above finds what it looks for.
func TestStockBookmarksOfParts(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		raw, stock := r.stock()
		_, all, last := bookmarksMidway(t, r, raw, stock)
		if len(all.early) == 0 || len(last.early) == 0 {
			t.Errorf("upstream's bookmarks come after their revisions: %+v, %+v", all, last)
		}
	})
}

// TestPartOfARevisionIsNotRepeated is what is not promised, as with upstream: who goes on
// from an event that came with a part of its revision misses the rest. (Whoever listed at
// that revision goes on from the same number, and must not get it again.)
func TestPartOfARevisionIsNotRepeated(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		h := r.herd(12)
		settled()
		r.cached.Hold()
		h.change(r)
		r.cached.Step(5)
		settled()
		client := stateOf(must(list(t.Context(), r.inner, everything("0"))))
		r.cached.Release()
		settled()
		w := must(r.store.Watch(t.Context(), "/pods/", everything(formatRevision(h.changed))))
		defer w.Stop()
		r.put("later")
		for _, event := range received(w) {
			client.apply(event)
		}
		if missed := differ(client, r.truth()); missed != 12-5 {
			t.Errorf("the client differs in %d objects, want 7", missed)
		}
	})
}

func TestBookmarksNeverBelowWhatWasSent(t *testing.T) {
	s := &Store{tears: &tears{}, router: router{versioner: storage.APIObjectVersioner{}}}
	s.tears.begin(1)
	s.tears.begin(7)
	b := &bookmarkWatch{store: s}
	mark := func(revision uint64) watch.Event {
		return newBookmark(func() object { return &example.Pod{} }, revision)
	}
	end := mark(7)
	if err := storage.AnnotateInitialEventsEndBookmark(end.Object); err != nil {
		t.Fatal(err)
	}
	event := pod("ns", "a")
	event.ResourceVersion = "6"
	for _, step := range []struct {
		in   watch.Event
		want uint64 // 0: nothing goes out
	}{
		{mark(1), 0}, // nothing is at 0
		{mark(5), 5},
		{mark(7), 6},
		{watch.Event{Type: watch.Added, Object: event}, 6},
		{mark(7), 6},
		{end, 7}, // it ends a list of a whole revision
		{mark(7), 0},
		{mark(8), 8},
	} {
		before := short(step.in)
		var got uint64
		out := b.whole(step.in)
		if out.Object != nil {
			got = revisionOf(t, out)
		}
		if got != step.want || (out.Object != nil) != (step.want != 0) {
			t.Errorf("%s goes out at %d, want %d", before, got, step.want)
		}
		if after := short(step.in); after != before { // others have it too
			t.Errorf("%s has become %s", before, after)
		}
	}
}

// TestBookmarkWatchEnds: it ends when its client goes, although nobody takes what it has, and
// has nothing more to take then.
func TestBookmarkWatchEnds(t *testing.T) {
	for name, gone := range map[string]func(w watch.Interface, cancel func()){
		"stop":   func(w watch.Interface, _ func()) { w.Stop() },
		"cancel": func(_ watch.Interface, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				inner := watch.NewFakeWithChanSize(2, false)
				w := r.store.bookmarked(ctx, inner)
				for range 5 {
					inner.Add(pod("ns", "a"))
					settled()
				}
				gone(w, cancel)
				settled()
				if name == "stop" && !inner.IsStopped() {
					t.Error("the inner watch goes on")
				}
				if events := received(w); len(events) != 2 {
					t.Errorf("%d events are taken after the end, want the 2 that the channel had", len(events))
				}
			})
		})
	}
}

// TestBookmarkWatchEndsTheInner: of a watch that ended with an error no other is left.
func TestBookmarkWatchEndsTheInner(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a", "b") // events are looked at
		settled()
		r.store.router.versioner = panickyVersioner{r.store.router.versioner}
		inner := watch.NewFakeWithChanSize(1, false)
		w := r.store.bookmarked(t.Context(), inner)
		p := pod("ns", "a")
		p.ResourceVersion = "7"
		inner.Add(p)
		if events := received(w); len(events) != 1 || !inner.IsStopped() {
			t.Errorf("got %q, the inner watch is stopped: %t", shorts(events), inner.IsStopped())
		}
	})
}
