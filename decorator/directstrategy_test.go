package decorator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

// TestDirectStrategy: nothing is answered from the cache that would have to be verified,
// however fresh it is, whatever it does, and also while it is filled.
func TestDirectStrategy(t *testing.T) {
	for name, s := range map[string]setup{"ready": {}, "filling": {filling: true}, "without a Feed": {feedless: true}} {
		for _, policy := range []OnUnverified{UnverifiedFail, UnverifiedDirect} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				s := s
				s.cfg = Config{Strategy: StrategyDirect, OnUnverified: policy}
				bubble(t, s, func(t *testing.T, r *rig) {
					r.cached.Hold()
					newest := r.put("a")
					before := r.cached.Calls()
					for _, version := range []string{"", "0", formatRevision(newest)} {
						pods, err := list(t.Context(), r.store, everything(version))
						if err != nil || !slices.Equal(names(pods), []string{"a"}) {
							t.Errorf("list %q: got %v, %v", version, names(pods), err)
						}
					}
					out := &example.Pod{}
					if err := r.store.Get(t.Context(), "/pods/ns/a", storage.GetOptions{ResourceVersion: "0"}, out); err != nil || out.Name != "a" {
						t.Errorf("get: %q, %v", out.Name, err)
					}
					for _, version := range []string{"", "0"} {
						if _, err := r.store.Watch(t.Context(), "/pods/", everything(version)); !errors.Is(err, ErrNotFresh) || !apierrors.IsTooManyRequests(err) {
							t.Errorf("watch %q: got %v", version, err)
						}
					}
					for _, version := range []string{"", "0", formatRevision(newest)} {
						opts := everything(version)
						opts.SendInitialEvents, opts.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
						opts.Predicate.AllowWatchBookmarks = true
						if _, err := r.store.Watch(t.Context(), "/pods/", opts); !errors.Is(err, ErrNotFresh) || !apierrors.IsInvalid(err) {
							t.Errorf("watch with initial events at %q: got %v", version, err)
						}
					}
					if _, err := list(t.Context(), r.store, everything(formatRevision(newest+1))); !storage.IsTooLargeResourceVersion(err) {
						t.Errorf("list at what does not exist: got %v", err)
					}
					after := r.cached.Calls()
					if after.List != before.List+3 || after.Get != before.Get+1 || after.Kicks != before.Kicks {
						t.Errorf("calls were %+v and are %+v", before, after)
					}
					if got := r.reads(verbList, routeFloor, outcomeOK); got != 2 {
						t.Errorf("%v reads were counted", got)
					}
				})
			})
		}
	}
}

// TestDirectStrategyWatches: a watch that goes on from a revision is the cache's, and a
// list at what the cache has.
func TestDirectStrategyWatches(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyDirect}}, func(t *testing.T, r *rig) {
		revision := r.put("a")
		settled()
		before := r.cached.Calls().List
		if pods, err := list(t.Context(), r.store, everything(formatRevision(revision-1))); err != nil || len(pods.Items) != 1 {
			t.Errorf("got %v, %v", names(pods), err)
		}
		if r.cached.Calls().List != before {
			t.Error("the storage was listed for what the cache has")
		}
		w, err := r.store.Watch(t.Context(), "/pods/", everything(formatRevision(revision)))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		r.put("b")
		settled()
		select {
		case event := <-w.ResultChan():
			if got := short(event); got != "ADDED b@"+formatRevision(revision+1) {
				t.Errorf("got %s", got)
			}
		default:
			t.Error("no event")
		}
		refused, err := r.store.Watch(t.Context(), "/pods/", everything(formatRevision(revision+2)))
		if err != nil {
			t.Fatal(err)
		}
		if event := <-refused.ResultChan(); !storage.IsTooLargeResourceVersion(apierrors.FromObject(event.Object)) {
			t.Errorf("a watch from what does not exist got %v", event)
		}
	})
}

// TestDirectStrategyReflector: client-go's reflectors start, and follow.
func TestDirectStrategyReflector(t *testing.T) {
	for _, watchList := range []bool{false, true} {
		t.Run(fmt.Sprintf("watchList=%v", watchList), func(t *testing.T) {
			bubble(t, setup{cfg: Config{Strategy: StrategyDirect}}, func(t *testing.T, r *rig) {
				r.put("a")
				kept := cache.NewStore(cache.MetaNamespaceKeyFunc)
				reflector := cache.NewReflectorWithOptions(&client{storage: r.store, watchList: watchList}, &example.Pod{}, kept, cache.ReflectorOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { reflector.RunWithContext(ctx) })
				settled()
				r.put("b")
				settled()
				if got := len(kept.ListKeys()); got != 2 {
					t.Errorf("it has %v", kept.ListKeys())
				}
				cancel()
				running.Wait()
			})
		})
	}
}

// TestDirectPages: what goes on from a quorum list does not wait for the cache, which may
// never get there.
func TestDirectPages(t *testing.T) {
	for name, cfg := range map[string]Config{"strategy": {Strategy: StrategyDirect}, "policy": {OnUnverified: UnverifiedDirect, MaxWait: 50 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: cfg}, func(t *testing.T, r *rig) {
				settled()
				r.cached.Hold()
				r.put("a")
				r.put("b")
				opts := everything("")
				opts.Predicate.Limit = 1
				first, err := list(t.Context(), r.store, opts)
				if err != nil || !slices.Equal(names(first), []string{"a"}) || first.Continue == "" {
					t.Fatalf("got %v, %v", first, err)
				}
				opts.Predicate.Continue = first.Continue
				start := time.Now()
				second, err := list(t.Context(), r.store, opts)
				if err != nil || !slices.Equal(names(second), []string{"b"}) || time.Since(start) > 0 {
					t.Errorf("got %v, %v after %v", second, err, time.Since(start))
				}
				r.cached.Release()
				settled()
				before := r.cached.Calls().List
				if _, err := list(t.Context(), r.store, opts); err != nil {
					t.Error(err)
				}
				// The cache has the revision now, which is enough for it if events do not get lost.
				if asked := r.cached.Calls().List - before; asked != map[bool]int64{true: 1}[name == "strategy"] {
					t.Errorf("the storage was listed %d times", asked)
				}
			})
		})
	}
}

// TestDirectStrategyShadow: what would have been answered is not counted as a failure.
func TestDirectStrategyShadow(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyDirect, Shadow: true}}, func(t *testing.T, r *rig) {
		if _, err := list(t.Context(), r.store, everything("0")); err != nil {
			t.Fatal(err)
		}
		settled()
		if got := r.reads(verbList, routeFloor, outcomeOK); got != 1 {
			t.Errorf("%v reads were counted as good", got)
		}
	})
}
