package decorator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// eachStorage runs f over every kind of storage and cache.
func eachStorage(t *testing.T, cfg Config, f func(*testing.T, *rig)) {
	t.Helper()
	for name, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}, "no feed": {feedless: true}} {
		t.Run(name, func(t *testing.T) {
			s.cfg = cfg
			bubble(t, s, f)
		})
	}
}

// TestFreshAfterOtherWrites: a write that the cache's watch does not carry makes no
// read wait for a tick, only for the floor, however long that takes to read. It is
// done often: a Stream learns when to ask for progress before it knows the floor.
func TestFreshAfterOtherWrites(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			eachStorage(t, Config{}, func(t *testing.T, r *rig) {
				r.put("a")
				r.writer.OnRevision(func(_ context.Context, revision uint64) (uint64, error) {
					time.Sleep(latency) // of the network, on the bubble's clock
					return revision, nil
				})
				for range 50 {
					newest := r.memory.Bump()
					start := time.Now()
					pods, err := list(t.Context(), r.store, everything(""))
					if err != nil || pods.ResourceVersion != formatRevision(newest) {
						t.Fatalf("got %s, %v; want %d", pods.ResourceVersion, err, newest)
					}
					if waited := time.Since(start); waited != latency {
						t.Errorf("waited %v for a backend that answers in %v", waited, latency)
					}
				}
			})
		})
	}
}

// TestQuietReadsAreCheap: a read of a cache that is fresh costs one read of the
// source and asks for nothing.
func TestQuietReadsAreCheap(t *testing.T) {
	eachStorage(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		reads, before := r.floorReads(), r.cached.Calls()
		for range 10 {
			if _, err := list(t.Context(), r.store, everything("")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		after := r.cached.Calls()
		if got := r.floorReads() - reads; got != 10 {
			t.Errorf("10 reads took %d reads of the source", got)
		}
		if kicks := after.Kicks + after.Progress - before.Kicks - before.Progress; kicks > 1 {
			t.Errorf("10 reads of a fresh cache asked for progress %d times", kicks)
		}
	})
}

// TestProgressComesBack: a read that waits for progress which stands still, or does
// not come, is served when it comes.
func TestProgressComesBack(t *testing.T) {
	const gone = 300 * time.Millisecond
	for name, fault := range map[string]struct{ on, off func(*rig) }{
		"dropped": {func(r *rig) { r.cached.DropProgress(true) }, func(r *rig) { r.cached.DropProgress(false) }},
		"frozen":  {func(r *rig) { r.cached.FreezeProgress(true) }, func(r *rig) { r.cached.FreezeProgress(false) }},
		"held":    {func(r *rig) { r.cached.Hold() }, func(r *rig) { r.cached.Release() }},
	} {
		t.Run(name, func(t *testing.T) {
			eachStorage(t, Config{}, func(t *testing.T, r *rig) {
				r.put("a")
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Fatal(err)
				}
				fault.on(r)
				newest := r.memory.Bump()
				time.AfterFunc(gone, func() { fault.off(r) })
				start := time.Now()
				pods, err := list(t.Context(), r.store, everything(""))
				if err != nil || pods.ResourceVersion != formatRevision(newest) {
					t.Fatalf("got %s, %v; want %d", pods.ResourceVersion, err, newest)
				}
				// Who waits asks again each 100 ms at the latest.
				if waited := time.Since(start); waited < gone || waited > gone+100*time.Millisecond {
					t.Errorf("waited %v for progress that was gone for %v", waited, gone)
				}
			})
		})
	}
}

// TestFrozenProgressIsHealedByEvents: an event proves what is below it, whatever
// progress says; and without a progress.Watcher, which would tell that the event is
// all of its revision, the next event proves that, too.
func TestFrozenProgressIsHealedByEvents(t *testing.T) {
	for name, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				r.put("a")
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Fatal(err)
				}
				r.cached.FreezeProgress(true)
				newest := r.memory.Bump()
				time.AfterFunc(time.Second, func() { r.put("b") })
				time.AfterFunc(2*time.Second, func() { r.put("c") })
				start := time.Now()
				err := r.store.stream.Wait(t.Context(), newest)
				if waited := time.Since(start); err != nil || waited != time.Second {
					t.Errorf("waited %v for the first event (error %v)", waited, err)
				}
				err = r.store.stream.Wait(t.Context(), newest+1)
				want := time.Second
				if s.untapped {
					want = 2 * time.Second
				}
				if waited := time.Since(start); err != nil || waited != want {
					t.Errorf("waited %v for a proof of the first event (error %v), want %v", waited, err, want)
				}
			})
		})
	}
}

// TestWatchBreaks: whatever way the cache's watch breaks, reads are right once it is
// back, and until then they fail.
func TestWatchBreaks(t *testing.T) {
	for name, fault := range map[string]func(*rig){
		"at once": func(r *rig) { r.cached.CutAfter(0); r.put("b") },
		"after an event": func(r *rig) {
			r.cached.CutAfter(1)
			r.put("b")
			r.put("c")
		},
		"inside a revision that is compacted": func(r *rig) {
			r.cached.CutAfter(1)
			r.cached.Hold()
			newest := r.put("b", "c", "d")
			if err := r.memory.Compact(newest); err != nil {
				r.t.Fatal(err)
			}
			r.cached.Release()
		},
		"with progress ahead of its events": func(r *rig) {
			r.cached.OvertakeProgress(true)
			r.cached.Hold()
			r.put("b")
			settled()
			r.put("c")
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			defer cancel()
			r.store.GetList(ctx, "/pods/", everything(""), newPodList())
			r.cached.Release()
			settled()
			r.cached.OvertakeProgress(false)
		},
	} {
		for kind, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				bubble(t, s, func(t *testing.T, r *rig) {
					r.put("a")
					settled()
					fault(r)
					deadline := time.Now().Add(time.Minute)
					for {
						pods, err := list(t.Context(), r.store, everything(""))
						if err == nil {
							if !maps.Equal(stateOf(pods), r.truth()) {
								t.Errorf("got %v, want %v", stateOf(pods), r.truth())
							}
							return
						}
						if !errors.Is(err, ErrNotReady) && !errors.Is(err, ErrNotFresh) {
							t.Fatal(err)
						}
						if time.Now().After(deadline) {
							t.Fatalf("the cache did not come back: %v", err)
						}
					}
				})
			})
		}
	}
}

// TestPilotIsOne: however many callers wait on a cache without a Feed, one list waits
// inside it, and not at all while nobody waits.
func TestPilotIsOne(t *testing.T) {
	seen := &spy{}
	s := setup{feedless: true, inner: func(inner storage.Interface) storage.Interface {
		seen.Interface = inner
		return seen
	}}
	bubble(t, s, func(t *testing.T, r *rig) {
		var now, utmost int
		seen.onList = func(_ context.Context, opts storage.ListOptions, _ runtime.Object, pass func() error) error {
			if opts.Recursive {
				return pass()
			}
			now++
			utmost = max(utmost, now)
			err := pass()
			now--
			return err
		}
		r.put("a")
		r.cached.Hold()
		r.memory.Bump()
		errs := make(chan error)
		for range 100 {
			go func() { errs <- reads("")["list"](t.Context(), r.store) }()
		}
		time.Sleep(time.Second)
		r.cached.Release()
		for range 100 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if utmost != 1 {
			t.Errorf("%d lists waited inside the cache at once, want 1", utmost)
		}
		time.Sleep(cacherTimers)
		seen.forget()
		time.Sleep(time.Minute)
		if got := seen.asked(); len(got) > 0 {
			t.Errorf("while nobody waited the cache was asked %q", got)
		}
	})
}

// TestPilotKey: the key of the pilot names no object, so that nobody's object can be
// read by it.
func TestPilotKey(t *testing.T) {
	bubble(t, setup{feedless: true}, func(t *testing.T, r *rig) {
		if err := r.store.Get(t.Context(), r.store.pilot.key, storage.GetOptions{}, newPod()); !storage.IsNotFound(err) {
			t.Errorf("%s: got %v", r.store.pilot.key, err)
		}
		_, err := storage.NoNamespaceKeyFunc("/pods/", pod("", r.store.pilot.key[len("/pods/"):]))
		if err == nil {
			t.Errorf("an object may have the key %s", r.store.pilot.key)
		}
		if got := slices.Sorted(maps.Keys(r.truth())); len(got) != 0 {
			t.Errorf("the storage holds %q", got)
		}
	})
}
