package decorator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// failedFor is a rig whose strategy has failed for so long that the next trial is far.
func failedFor(t *testing.T, s setup, f func(*testing.T, *rig)) {
	t.Helper()
	bubble(t, s, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.DropProgress(true)
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			r.wantFresh(2500 * time.Millisecond)
		}
		r.wantStrategy(StrategyDirect)
		for !r.backend.chooser.trials.late() {
			time.Sleep(time.Second)
			r.wantFresh(0)
		}
		f(t, r)
	})
}

// late says that no trial runs, and the next is far away.
func (t *trials) late() bool {
	in := -t.due.Load().Since()
	return in > maxTrialEach/2 && in <= maxTrialEach
}

// TestRecoveryIsTried: a watch of a cache that is opened again has what failed tried at once,
// without a read.
func TestRecoveryIsTried(t *testing.T) {
	failedFor(t, setup{}, func(t *testing.T, r *rig) {
		r.cached.DropProgress(false)
		r.cached.CutAfter(0)
		r.put("b") // the watch breaks, and its reflector opens another
		time.Sleep(2 * time.Second)
		r.wantStrategy(StrategyRequest)
		r.wantFresh(10 * time.Millisecond)
	})
}

// TestFloorsComeBack: so does a floor after reads of it that failed.
func TestFloorsComeBack(t *testing.T) {
	failedFor(t, setup{}, func(t *testing.T, r *rig) {
		r.writer.OnRevision(func(context.Context, uint64) (uint64, error) { return 0, errors.New("no leader") })
		for range 3 {
			if _, err := r.backend.floors.Next(t.Context()); err == nil {
				t.Fatal("a floor")
			}
		}
		r.cached.DropProgress(false)
		r.writer.OnRevision(nil)
		if _, err := r.backend.floors.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		settled()
		r.wantStrategy(StrategyRequest)
	})
}

// TestSignsAreBounded: signs that come all the time, as from a watch that breaks again and
// again, do not have a strategy tried all the time, and the last of them is not lost.
func TestSignsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trials := newTrials()
		defer trials.close()
		begun, last := 0, time.Time{}
		trial := func(context.Context) lesson {
			begun, last = begun+1, time.Now()
			return doesNotWork
		}
		began := time.Now()
		for time.Since(began) < 10*time.Second {
			trials.hasten(trial)
			time.Sleep(10 * time.Millisecond)
		}
		sign := time.Now()
		trials.hasten(trial)
		time.Sleep(time.Second)
		synctest.Wait()
		if begun < 90 || begun > 105 || last.Before(sign) {
			t.Errorf("%d trials in ten seconds of signs, the last %v after the last sign", begun, last.Sub(sign))
		}
	})
}

// TestNoVerdictInAnOutage: that nothing is answered while no floor can be read either is the
// backend's outage, and not a property of its strategy. Where floors are read, it is.
func TestNoVerdictInAnOutage(t *testing.T) {
	for name, outage := range map[string]func(ctx context.Context) error{
		"fails": func(context.Context) error { return errors.New("no leader") },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				r.backend.SetProperties(sane)
				r.wantFresh(10 * time.Millisecond)
				r.cached.DropProgress(true)
				var out atomic.Bool
				r.writer.OnRevision(func(ctx context.Context, revision uint64) (uint64, error) {
					if out.Load() {
						return 0, outage(ctx)
					}
					return revision, nil
				})
				for range 3 {
					out.Store(false)
					r.memory.Bump()
					done := make(chan error, 1)
					go func() {
						_, err := list(t.Context(), r.store, everything(""))
						done <- err
					}()
					settled() // it has its floor, and waits for the cache
					out.Store(true)
					if err := <-done; err == nil {
						t.Fatal("it was answered: this test has lost its meaning")
					}
					r.wantStrategy(StrategyRequest)
					if failures := r.backend.Status().Strategy.Failures; len(failures) != 0 {
						t.Fatalf("failures are %+v", failures)
					}
				}
				out.Store(false)
				r.cached.DropProgress(false)
				r.wantFresh(time.Second)
			})
		})
	}
}

// TestBrokenCacheIsNoVerdict: a cache that is itself broken, and has all the reads, keeps no
// strategy from coming back that works with another.
func TestBrokenCacheIsNoVerdict(t *testing.T) {
	failedFor(t, setup{}, func(t *testing.T, r *rig) {
		sound, err := memstorage.New(r.memory, memstorage.Config{Prefix: "/pods/", Tapped: true, New: newPod})
		if err != nil {
			t.Fatal(err)
		}
		res := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList, Raw: sound}
		if res.Feed, err = r.backend.Feed(sound, res); err != nil {
			t.Fatal(err)
		}
		newCache(t, "/pods/", res.Feed, sound)
		// A cache that has been filled is a sign, and from now on there are reads of the
		// broken one alone.
		time.Sleep(2 * time.Second)
		r.wantStrategy(StrategyRequest)
	})
}
