package decorator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// state is what a client knows: the resourceVersions of objects, by key.
type state map[string]string

// truth is what the backend holds.
func (r *rig) truth() state {
	r.t.Helper()
	pods, err := list(r.t.Context(), r.writer, everything(""))
	if err != nil {
		r.t.Fatal(err)
	}
	return stateOf(pods)
}

func stateOf(pods *example.PodList) state {
	s := state{}
	for _, p := range pods.Items {
		s[podKey(&p)] = p.ResourceVersion
	}
	return s
}

// follow applies what a watch delivers until it ends.
func (s state) follow(w watch.Interface) error {
	for event := range w.ResultChan() {
		if err := failureOf(event); err != nil {
			return err
		}
		s.apply(event)
	}
	return nil
}

func (s state) apply(event watch.Event) {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return
	}
	key := "/pods/" + object.GetNamespace() + "/" + object.GetName()
	switch event.Type {
	case watch.Added, watch.Modified:
		s[key] = object.GetResourceVersion()
	case watch.Deleted:
		delete(s, key)
	}
}

// beginning is a way in which a client can begin a watch, and what it knows then.
type beginning struct {
	opts  storage.ListOptions
	knows state
}

func (h *herd) beginnings(known state) map[string]beginning {
	return map[string]beginning{
		"unset":                 {everything(""), state{}},
		"zero":                  {everything("0"), state{}},
		"initial events":        {listOptions{initial: new(true)}.options(), state{}},
		"zero, initial events":  {listOptions{rv: "0", initial: new(true)}.options(), state{}},
		"N":                     {everything(formatRevision(h.before)), maps.Clone(known)},
		"N with initial events": {listOptions{rv: formatRevision(h.before), initial: new(true)}.options(), state{}},
	}
}

// openEachInstant opens watches of every kind through s at each instant while raw
// delivers one revision, and returns those that miss a part of it, by kind.
func openEachInstant(t *testing.T, r *rig, raw *memstorage.Storage, s storage.Interface, size int) map[string][]string {
	t.Helper()
	h := r.herd(size)
	if _, err := list(t.Context(), s, everything("")); err != nil {
		t.Fatal(err)
	}
	known := r.truth()
	settled() // for stock, whose LIST is no proof that the cache has all of the herd
	raw.Hold()
	h.change(r)
	type result struct {
		kind    string
		instant int
		knows   state
		err     error
	}
	results := make(chan result, 6*(size+1))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range size + 1 {
		for kind, w := range h.beginnings(known) {
			go func() {
				opened, err := s.Watch(ctx, "/pods/", w.opts)
				if err == nil {
					err = w.knows.follow(opened)
				}
				results <- result{kind, i, w.knows, err}
			}()
		}
		settled()
		raw.Step(1)
		settled()
	}
	raw.Release()
	time.Sleep(time.Second) // for those that ask for progress
	stop()
	want, missed := r.truth(), map[string][]string{}
	for range cap(results) {
		if w := <-results; w.err != nil || !maps.Equal(w.knows, want) {
			missed[w.kind] = append(missed[w.kind], fmt.Sprintf("opened after %d items: %d objects differ, error %v", w.instant, differ(w.knows, want), w.err))
		}
	}
	return missed
}

func differ(a, b state) int {
	n := 0
	for key := range maps.Keys(b) {
		if a[key] != b[key] {
			n++
		}
	}
	for key := range maps.Keys(a) {
		if _, there := b[key]; !there {
			n++
		}
	}
	return n
}

// TestWatchInsideRevision: a watch that is opened while the cache has a part of a
// revision brings the rest, too.
func TestWatchInsideRevision(t *testing.T) {
	const size = 12
	cfg := Config{ZeroVersion: ZeroBounded, MaxStaleness: time.Hour}
	for name, s := range map[string]setup{"tapped": {cfg: cfg}, "untapped": {cfg: cfg, untapped: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				for kind, missed := range openEachInstant(t, r, r.cached, r.store, size) {
					t.Errorf("%s: %d of %d watches, such as one %s", kind, len(missed), size+1, missed[0])
				}
			})
		})
	}
}

// TestStockWatchMissesParts: the test above finds what it looks for. Which watch falls
// into which instant is a matter of chance, so it may have to look again.
func TestStockWatchMissesParts(t *testing.T) {
	missed := map[string][]string{}
	kinds := []string{"unset", "zero", "zero, initial events", "N", "N with initial events"}
	missesNone := func(kind string) bool { return len(missed[kind]) == 0 }
	for range 5 {
		bubble(t, setup{}, func(t *testing.T, r *rig) {
			raw, stock := r.stock()
			maps.Copy(missed, openEachInstant(t, r, raw, stock, 12))
		})
		if !slices.ContainsFunc(kinds, missesNone) {
			return
		}
	}
	t.Errorf("upstream's watches miss nothing of some of %q: %v", kinds, missed)
}

// TestCutInsideRevision: where the cache's watch breaks in the middle of a revision,
// the cache comes to have all of it, without filling anew.
func TestCutInsideRevision(t *testing.T) {
	const size = 10
	for name, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
		for cut := 1; cut < size; cut++ {
			t.Run(fmt.Sprintf("%s/after %d", name, cut), func(t *testing.T) {
				bubble(t, s, func(t *testing.T, r *rig) {
					h := r.herd(size)
					settled()
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					w, err := r.store.Watch(ctx, "/pods/", everything(formatRevision(h.before)))
					if err != nil {
						t.Fatal(err)
					}
					client, followed := r.truth(), make(chan error)
					go func() { followed <- client.follow(w) }()
					opened := r.cached.Calls().Watch
					r.cached.CutAfter(cut)
					h.change(r)
					pods, err := list(t.Context(), r.store, everything(""))
					if err != nil || !maps.Equal(stateOf(pods), r.truth()) {
						t.Errorf("the cache differs in %d objects, error %v", differ(stateOf(pods), r.truth()), err)
					}
					settled()
					stop()
					if err := <-followed; err != nil || !maps.Equal(client, r.truth()) {
						t.Errorf("a client's watch differs in %d objects, error %v", differ(client, r.truth()), err)
					}
					if calls := r.cached.Calls(); calls.Watch != opened+1 || calls.List != 0 {
						t.Errorf("the cache opened %d watches and made %d lists, want one watch", calls.Watch-opened, calls.List)
					}
				})
			})
		}
	}
}

// TestStockLosesCutRevision is why the test above exists: upstream goes on from the
// revision that it has in part.
func TestStockLosesCutRevision(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		raw, stock := r.stock()
		h := r.herd(10)
		settled()
		raw.CutAfter(4)
		h.change(r)
		time.Sleep(time.Minute)
		pods, err := list(t.Context(), stock, everything(""))
		if err != nil || differ(stateOf(pods), r.truth()) == 0 {
			t.Errorf("upstream's cache lost nothing (error %v)", err)
		}
	})
}

// TestEchoIsHarmless: what the Feed adds to the cache's own watch changes nothing for
// who watches the cache: the same events and bookmarks come, in the same order.
func TestEchoIsHarmless(t *testing.T) {
	for name, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				r.put("a", "b")
				r.put("c")
				_, stock := r.stock()
				kinds := []listOptions{{}, {rv: "0"}, {rv: "3"}, {initial: new(true)}, {initial: new(false)}}
				var with, without []watch.Interface
				for _, kind := range kinds {
					opts := kind.options()
					opts.Predicate.AllowWatchBookmarks = true
					for s, all := range map[storage.Interface]*[]watch.Interface{r.inner: &with, stock: &without} {
						w, err := s.Watch(t.Context(), "/pods/", opts)
						if err != nil {
							t.Fatal(err)
						}
						defer w.Stop()
						*all = append(*all, w)
					}
				}
				// Watches get a bookmark each minute, give or take a second: so there is
				// quiet around it.
				r.put("a")
				r.txn(memstorage.Delete("/pods/ns/b"), memstorage.Put("/pods/ns/d", pod("ns", "d")))
				time.Sleep(90 * time.Second)
				r.put("a", "c")
				r.put("e")
				time.Sleep(60 * time.Second)
				for i, kind := range kinds {
					got, want := shorts(received(with[i])), shorts(received(without[i]))
					if !slices.Equal(got, want) {
						t.Errorf("%+v: a watch delivers %q with the Feed, and %q without", kind, got, want)
					}
					if !slices.ContainsFunc(want, func(item string) bool { return item[:4] == "BOOK" }) {
						t.Errorf("%+v: there is no bookmark in %q", kind, want)
					}
				}
			})
		})
	}
}

// TestBookmarksNeverGoBack: a bookmark below what the cache has takes upstream's back
// to it, and does not with the Feed.
func TestBookmarksNeverGoBack(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		raw, stock := r.stock()
		old := r.put("a")
		newest := r.put("b")
		settled()
		for _, s := range []*memstorage.Storage{raw, r.cached} {
			s.SendProgress(old)
		}
		settled()
		for name, c := range map[string]struct {
			cache storage.Interface
			want  uint64
		}{"with the Feed": {r.inner, newest}, "without": {stock, old}} {
			pods, err := list(t.Context(), c.cache, everything("0"))
			if err != nil || pods.ResourceVersion != formatRevision(c.want) {
				t.Errorf("%s: the cache is at %s, want %d (error %v)", name, pods.ResourceVersion, c.want, err)
			}
		}
	})
}
