package decorator

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rvfloor/rvfloor/freshness"
)

// TestNudge: on a backend whose progress stands still by nature, and where an operator
// says so, a LIST costs one write, however many there are, and no wait.
func TestNudge(t *testing.T) {
	stands := sane
	stands.ProgressReaches = VerdictNo
	for name, test := range map[string]struct {
		cfg      Config
		probed   bool
		feedless bool
	}{
		"probed": {probed: true}, "explicit": {cfg: Config{Strategy: StrategyNudge}},
		"without a Feed": {cfg: Config{Strategy: StrategyNudge}, feedless: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, nudges := standing(test.cfg)
			s.feedless = test.feedless
			bubble(t, s, func(t *testing.T, r *rig) {
				if test.probed {
					r.backend.SetProperties(stands)
				}
				r.wantStrategy(StrategyNudge)
				r.cached.FreezeProgress(true)
				r.memory.Bump()
				began := time.Now()
				var callers sync.WaitGroup
				for range 1000 {
					callers.Go(func() {
						if _, err := list(t.Context(), r.store, everything("")); err != nil {
							t.Error(err)
						}
					})
				}
				callers.Wait()
				if got := nudges.writes.Load(); got != 1 {
					t.Errorf("%d nudges for 1,000 LISTs", got)
				}
				if took := time.Since(began); took > 200*time.Millisecond {
					t.Errorf("they took %v", took)
				}
				if got := count(t, r.backend.metrics.Nudges.WithLabelValues("default", "ok")); got != 1 {
					t.Errorf("%v nudges were counted", got)
				}
			})
		})
	}
}

// TestNudgesAreShared: of callers who come while a write is on its way, those whose target
// was known when it was sent need no other, and the rest share one.
func TestNudgesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, proceed := &nudgeable{Source: source(1)}, make(chan struct{})
		source.onSend = func() error { <-proceed; return nil }
		b, err := NewBackend(Config{Source: source, Strategy: StrategyNudge})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		var callers sync.WaitGroup
		write := func(target uint64) {
			callers.Go(func() {
				if err := b.nudges.write(t.Context(), target); err != nil {
					t.Error(err)
				}
			})
			settled()
		}
		wantWrites := func(want int64) {
			t.Helper()
			settled()
			if got := source.writes.Load(); got != want {
				t.Fatalf("%d writes, want %d", got, want)
			}
		}
		write(10)
		write(10)
		write(9)
		wantWrites(1)
		proceed <- struct{}{}
		wantWrites(1)
		write(11)
		write(12)
		write(12)
		wantWrites(2)
		proceed <- struct{}{}
		wantWrites(3) // 12 was not known when it was sent
		proceed <- struct{}{}
		callers.Wait()
		write(12)
		wantWrites(3)
		time.Sleep(nudgeEach) // it did not help
		write(12)
		wantWrites(4)
		proceed <- struct{}{}
		callers.Wait()
	})
}

// TestNudgesDue: where it is known that writes help each target has one, and where it is
// not, each nudgeEach.
func TestNudgesDue(t *testing.T) {
	for name, test := range map[string]struct {
		seen   func(*Properties)
		helped bool
		want   int64
	}{
		"progress is known to stand still": {func(p *Properties) { p.ProgressReaches = VerdictNo }, false, 3},
		"not known":                        {func(p *Properties) {}, false, 1},
		"they have helped":                 {func(p *Properties) {}, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &nudgeable{Source: freshness.SourceFunc(func(context.Context) (uint64, error) { return 1, nil })}
				b, err := NewBackend(Config{Source: source})
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				seen := sane
				test.seen(&seen)
				b.SetProperties(seen)
				b.nudges.answered(5) // none was written yet, so it is not for what was
				write := func(target uint64) {
					t.Helper()
					if err := b.nudges.write(t.Context(), target); err != nil {
						t.Error(err)
					}
				}
				write(10)
				if test.helped {
					b.nudges.answered(10)
				}
				for range 2 {
					write(11)
					write(12)
				}
				if got := source.writes.Load(); got != test.want {
					t.Errorf("%d writes, want %d", got, test.want)
				}
			})
		})
	}
}

// TestNudgesAreMadeAgain: a write that failed was made for nobody.
func TestNudgesAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &nudgeable{Source: source(1), onSend: func() error { return errors.New("no quorum") }}
		b, err := NewBackend(Config{Source: source, Strategy: StrategyNudge})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.nudges.write(t.Context(), 10); err == nil {
			t.Error("it did not fail")
		}
		source.onSend = nil
		before := source.writes.Load()
		for range 2 {
			if err := b.nudges.write(t.Context(), 10); err != nil {
				t.Error(err)
			}
		}
		if got := source.writes.Load() - before; got != 1 {
			t.Errorf("%d writes, want one", got)
		}
	})
}

// TestNudgesOnlyWhereAnswersAreBelow: where an answer suffices nothing is written.
func TestNudgesOnlyWhereAnswersAreBelow(t *testing.T) {
	for name, feedless := range map[string]bool{"with a Feed": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			s, nudges := standing(Config{Strategy: StrategyNudge})
			s.feedless = feedless
			bubble(t, s, func(t *testing.T, r *rig) {
				for range 3 {
					r.wantFresh(200 * time.Millisecond)
				}
				if got := nudges.writes.Load(); got != 0 {
					t.Errorf("%d nudges", got)
				}
			})
		})
	}
}

// TestNudgesAreNotLeftUntried: what stands still before a write was made for it says nothing
// of writes.
func TestNudgesAreNotLeftUntried(t *testing.T) {
	s, _ := standing(Config{})
	bubble(t, s, func(t *testing.T, r *rig) {
		stands := sane
		stands.ProgressReaches = VerdictNo
		r.backend.SetProperties(stands)
		target := r.memory.Bump()
		r.backend.stoodStill(StrategyNudge, target)
		r.wantStrategy(StrategyNudge)
		if err := r.backend.nudges.write(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		r.backend.stoodStill(StrategyNudge, target)
		settled()
		r.wantStrategy(StrategyDirect)
	})
}

// TestSentinelNudges: etcd's source can.
var _ Nudger = (*freshness.Sentinel)(nil)
