package progress

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestSilent: kicks that nothing answers for SilentTime, while somebody waits, are told,
// and again each SilentTime. Whatever answers, or the last waiter's going, begins anew.
func TestSilent(t *testing.T) {
	type told struct {
		at     time.Duration
		target uint64
	}
	for name, test := range map[string]struct {
		do   func(t *testing.T, r *rig)
		want []told // times are in whole SilentTimes, rounded down
	}{
		"silence":               {func(t *testing.T, r *rig) { advance(3 * SilentTime) }, []told{{1, 10}, {2, 10}}},
		"a reply below":         {func(t *testing.T, r *rig) { advance(SilentTime - 300*ms); r.Replied(5); advance(SilentTime - 300*ms) }, nil},
		"silence after a reply": {func(t *testing.T, r *rig) { advance(SilentTime); r.Replied(5); advance(SilentTime + 300*ms) }, []told{{2, 10}}},
		"another watch":         {func(t *testing.T, r *rig) { advance(SilentTime - 300*ms); r.Rebound(); advance(SilentTime - 300*ms) }, nil},
		"events that suffice":   {func(t *testing.T, r *rig) { advance(SilentTime - 300*ms); r.Applied(20); advance(time.Minute) }, nil},
		"some wait that have waited for less": {func(t *testing.T, r *rig) {
			advance(SilentTime - 300*ms)
			r.Applied(19)
			advance(SilentTime - 300*ms)
		}, []told{{1, 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, ample())
				all := make(chan told, 10)
				r.cfg.Silent = func(target uint64) { all <- told{r.elapsed() / SilentTime, target} }
				r.wait(t.Context(), 10)
				r.wait(t.Context(), 20)
				test.do(t, r)
				var got []told
				for len(all) > 0 {
					got = append(got, <-all)
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("told %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestNobodyWaitsNothingIsSilent: the silence of the kicks for waiters that have gone does
// not count for those that come.
func TestNobodyWaitsNothingIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.cfg.Silent = func(uint64) { t.Error("silent") }
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), SilentTime-300*ms)
			r.wait(ctx, 10)
			r.Hint()
			advance(SilentTime)
			cancel()
		}
	})
}

// TestInterrupt: who waits is woken with the error, and who comes later waits, and kicks.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		moved := errors.New("moved")
		first, second := r.wait(t.Context(), 10), r.wait(t.Context(), 20)
		r.Interrupt(moved)
		wantReturned(t, first, moved)
		wantReturned(t, second, moved)
		r.wantIdle(t)
		third := r.wait(t.Context(), 10)
		wantBlocked(t, third)
		r.wantKicks(t, 0, 0)
		r.answer(10)
		wantReturned(t, third, nil)
		r.wantIdle(t)
	})
}

// TestInterruptBeforeTheWait: a read that has begun hears of it when it comes to wait, and
// one that begins later does not.
func TestInterruptBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		moved := errors.New("moved")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun, ahead := r.Begin(), r.Stream.Ahead()
		r.Interrupt(moved)
		for _, a := range []Ahead{begun, ahead} {
			if err := a.Wait(ctx, 10); err != moved {
				t.Errorf("got %v", err)
			}
		}
		r.Applied(10)
		if err := begun.Wait(ctx, 10); err != nil {
			t.Errorf("what is there already: got %v", err)
		}
		if err := r.Begin().Wait(ctx, 20); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	})
}

// TestBlind: where a kick is of no use without a target, none goes out before there is one.
func TestBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		useful := false
		r.cfg.Blind = func() bool { return useful }
		r.pays.need.Store(scoreFull)
		r.Hint()
		r.Stream.Ahead()
		r.wantKicks(t)
		useful = true
		r.Hint()
		r.wantKicks(t, 0)
	})
}

// TestKickTarget: Kick is told the highest revision that is waited for.
func TestKickTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var targets []uint64
		s := ample().NewStream(StreamConfig{Advance: func(_ context.Context, target uint64) error {
			targets = append(targets, target)
			return nil
		}})
		t.Cleanup(s.Close)
		r := &rig{Stream: s}
		s.Hint()
		synctest.Wait()
		r.answer(1)
		r.wait(t.Context(), 10)
		r.wait(t.Context(), 30)
		r.wait(t.Context(), 20)
		r.answer(10)
		if want := []uint64{0, 10, 30}; !slices.Equal(targets, want) {
			t.Errorf("targets %v, want %v", targets, want)
		}
	})
}

// TestCloseEndsAKick: its context ends with the Stream.
func TestCloseEndsAKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.cfg.Timeout = time.Hour
		r.onKick = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r.wait(t.Context(), 10)
		r.Close()
		if r.elapsed() > 0 || len(r.outcomes) != 1 {
			t.Errorf("Close returned after %v and the kick came to %v", r.elapsed(), r.outcomes)
		}
	})
}
