package decorator

import (
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

// TestSentinelNudges: etcd's source can.
var _ Nudger = (*freshness.Sentinel)(nil)
