package decorator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
)

// TestFeedReadsFloors: the cache's own revision reads are shared, and never "any".
func TestFeedReadsFloors(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		newest := r.put("a")
		settled() // the pulse reads a floor when the Backend begins
		before := r.floorReads()
		release := make(chan struct{})
		r.writer.OnRevision(func(_ context.Context, revision uint64) (uint64, error) {
			<-release
			return revision, nil
		})
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if got, err := r.feed.GetCurrentResourceVersion(t.Context()); err != nil || got != newest {
					t.Errorf("got %d, %v; want %d", got, err, newest)
				}
			})
		}
		settled()
		close(release)
		callers.Wait()
		if reads := r.floorReads() - before; reads > 2 {
			t.Errorf("100 callers took %d reads, want 2 at most", reads)
		}
		if own := r.cached.Calls().Revision; own != 0 {
			t.Errorf("the raw storage was read %d times", own)
		}
		r.failFloors(nil)
		if got, err := r.feed.GetCurrentResourceVersion(t.Context()); got != 0 || !errors.Is(err, ErrNoFloor) {
			t.Errorf("got %d, %v of a source that answers 0", got, err)
		}
	})
}

// TestFeedTakesHints: the cache's own request for progress, each 100 ms while it
// waits, is one kick at most and never reaches the storage as it is.
func TestFeedTakesHints(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		time.Sleep(untappedAfter)
		r.cached.Hold()
		for range 10 {
			if err := r.feed.RequestWatchProgress(t.Context()); err != nil {
				t.Error(err)
			}
		}
		settled()
		if calls := r.cached.Calls(); calls.Kicks+calls.Progress != 1 || (calls.Kicks == 1) != r.tapped() {
			t.Errorf("10 hints became %d kicks and %d requests, want 1", calls.Kicks, calls.Progress)
		}
	})
}

// TestFeedPassesOtherWatches: a watch of a part of the resource is not the cache's.
func TestFeedPassesOtherWatches(t *testing.T) {
	filtered := cacheOptions("1", nil)
	filtered.Predicate = selecting("", "metadata.name=a")
	single := cacheOptions("1", nil)
	single.Recursive = false
	for name, other := range map[string]struct {
		key  string
		opts storage.ListOptions
	}{
		"a namespace": {"/pods/ns/", cacheOptions("1", nil)},
		"one object":  {"/pods/ns/a", single},
		"a selector":  {"/pods/", filtered},
	} {
		t.Run(name, func(t *testing.T) {
			byHand(t, func(t *testing.T, r *rig, _ *spy) {
				cache := r.open("1", nil)
				want(t, cache, "BOOKMARK @1")
				w, err := r.feed.Watch(t.Context(), other.key, other.opts)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				r.put("a")
				want(t, w, "ADDED a@2", "nothing") // no echo
				want(t, cache, "ADDED a@2")        // and the cache's goes on
			})
		})
	}
}

// TestFeedSizeEstimation: the raw storage takes one KeysFunc for good, which calls
// that of the newest cache.
func TestFeedSizeEstimation(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		for _, key := range []string{"old", "new"} {
			keys := func(context.Context) ([]string, error) { return []string{key}, nil }
			if err := r.feed.EnableResourceSizeEstimation(keys); err != nil {
				t.Fatalf("the %s cache: %v", key, err)
			}
		}
		if got, err := r.cached.Keys(t.Context()); err != nil || !slices.Equal(got, []string{"new"}) {
			t.Errorf("the storage counts the keys of %q, %v", got, err)
		}
	})
}

// unsupporting is a storage to which a reflector must not send a watch-list.
type unsupporting struct{ storage.Interface }

func (unsupporting) IsWatchListSemanticsUnSupported() bool { return true }

// TestFeedForwardsWatchListSupport: the reflector asks the storage by an optional
// method. Where it may not, the cache is filled by a list, and as fresh.
func TestFeedForwardsWatchListSupport(t *testing.T) {
	for name, s := range map[string]setup{
		"watch-list": {},
		"list":       {raw: func(raw storage.Interface) storage.Interface { return unsupporting{raw} }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				if got := r.feed.IsWatchListSemanticsUnSupported(); got != (s.raw != nil) {
					t.Errorf("unsupported: %t", got)
				}
				if lists := r.cached.Calls().List; (lists > 0) != (s.raw != nil) {
					t.Errorf("the cache was filled with %d lists", lists)
				}
				r.put("a")
				newest := r.memory.Bump()
				pods, err := list(t.Context(), r.store, everything(""))
				if err != nil || !slices.Equal(names(pods), []string{"a"}) || pods.ResourceVersion != formatRevision(newest) {
					t.Errorf("got %q at %s, %v", names(pods), pods.ResourceVersion, err)
				}
			})
		})
	}
}

// TestFeedClose: it ends the cache's watch, wakes who waits, and opens no other.
func TestFeedClose(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, _ *spy) {
		w := r.open("1", nil)
		want(t, w, "BOOKMARK @1")
		r.cached.Hold()
		waited := make(chan error)
		go func() { waited <- r.feed.stream.Wait(context.Background(), 2) }()
		settled()
		r.feed.Close()
		r.feed.Close()
		if err := <-waited; err == nil {
			t.Error("a wait on a closed Feed ended well")
		}
		want(t, w, "closed")
		_, err := r.feed.Watch(t.Context(), "/pods/", cacheOptions("1", nil))
		if !errors.Is(err, ErrClosed) || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v of a closed Feed", err)
		}
	})
}

// TestFeedDelegates: what a Feed does not change reaches the raw storage.
func TestFeedDelegates(t *testing.T) {
	delegates(t, map[string]bool{
		"GetCurrentResourceVersion": true, "RequestWatchProgress": true,
		"Watch": false, "EnableResourceSizeEstimation": false,
	}, func(t *testing.T, b *Backend, inner storage.Interface) storage.Interface {
		f, err := b.Feed(inner, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
		if err != nil {
			t.Fatal(err)
		}
		return f
	})
}

// TestFeedRefusesRevisionZero: a cache is not filled from a storage that answers without a
// revision, by a watch or by a list.
func TestFeedRefusesRevisionZero(t *testing.T) {
	byHand(t, func(t *testing.T, r *rig, raw *spy) {
		r.put("a")
		raw.Interface = zeroVersions{raw.Interface}
		w := r.open("", new(true))
		events := received(w)
		if len(events) != 1 || failureOf(events[0]) == nil || !strings.Contains(failureOf(events[0]).Error(), "without a revision") {
			t.Errorf("got %q", shorts(events))
		}
		want(t, w, "closed")
		err := r.feed.GetList(t.Context(), "/pods/", everything("0"), newPodList())
		if err == nil || !strings.Contains(err.Error(), "without a revision") {
			t.Errorf("got %v", err)
		}
	})
}

type zeroVersions struct{ storage.Interface }

func (z zeroVersions) Versioner() storage.Versioner { return zeroVersioner{z.Interface.Versioner()} }

type zeroVersioner struct{ storage.Versioner }

func (zeroVersioner) ParseResourceVersion(string) (uint64, error) { return 0, nil }
