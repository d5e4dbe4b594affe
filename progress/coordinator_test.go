package progress

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// about is how far rounding may move the time of a token.
const about = 10 * time.Microsecond

func wantAbout(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want-about || got > want+about {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}

// TestOldestWaiterFirst: not who asked the budget first. The kick of a is repeated
// after b and c have queued, but its waiter was there before theirs.
func TestOldestWaiterFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 50, Burst: 1}) // 20 ms a token
		a, b, c := newRig(t, budget), newRig(t, budget), newRig(t, budget)
		a.wait(t.Context(), 10)
		advance(ms)
		c.wait(t.Context(), 10)
		advance(ms)
		b.wait(t.Context(), 10)
		a.wait(t.Context(), 20)           // a younger one beside it
		advance(17500 * time.Microsecond) // a's backoff is over
		a.wantKicks(t, 0)
		advance(ms)
		if n := len(a.kicked()); n != 2 {
			t.Fatalf("the oldest has %d kicks after the second token, want 2", n)
		}
		wantAbout(t, "second kick of the oldest", a.kicked()[1], 20*ms)
		b.wantKicks(t)
		c.wantKicks(t)
		a.answer(20)
		advance(50 * ms)
		wantAbout(t, "kick of the second oldest", c.kicked()[0], 40*ms)
		if n := len(b.kicked()); n > 0 && b.kicked()[0] <= c.kicked()[0] {
			t.Errorf("the youngest kicked at %v, before the second oldest at %v", b.kicked()[0], c.kicked()[0])
		}
	})
}

// TestBurstThenRate: who comes when the burst is used up follows at the rate, in
// the order of arrival.
func TestBurstThenRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 200, Burst: 4}) // 5 ms a token
		advance(time.Hour)                                    // saves up no more than a burst
		rigs := make([]*rig, 10)
		for i := range rigs {
			rigs[i] = newRig(t, budget)
			rigs[i].onKick = func(context.Context) error { rigs[i].Applied(10); return nil }
		}
		for i, r := range rigs {
			r.wait(t.Context(), 10)
			if n := len(r.kicked()); (n == 1) != (i < 4) {
				t.Errorf("stream %d has %d kicks on arrival", i, n)
			}
			advance(time.Microsecond)
		}
		advance(time.Second)
		for i, r := range rigs[4:] {
			kicks := r.kicked()
			if len(kicks) != 1 {
				t.Fatalf("stream %d kicked at %v, want once", i+4, kicks)
			}
			wantAbout(t, "kick after the burst", kicks[0], time.Duration(i+1)*5*ms)
		}
	})
}

// TestHeldBackAtMost100ms: the first kick, and each that is repeated.
func TestHeldBackAtMost100ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 1, Burst: 1})
		rigs := make([]*rig, 50)
		for i := range rigs {
			advance(7 * ms)
			rigs[i] = newRig(t, budget)
			rigs[i].wait(t.Context(), 10)
		}
		advance(2 * time.Second)
		for i, r := range rigs {
			kicks := r.kicked()
			if len(kicks) < 8 {
				t.Fatalf("stream %d has %d kicks in 2 s, want at least one each 200 ms", i, len(kicks))
			}
			if kicks[0] > 100*ms+about {
				t.Errorf("the first kick of stream %d was held back %v", i, kicks[0])
			}
			for n := range len(kicks) - 1 {
				// The backoff, and then the budget.
				if gap := kicks[n+1] - kicks[n]; gap > 200*ms+about {
					t.Errorf("stream %d waited %v for kick %d", i, gap, n+1)
				}
			}
		}
		if kicks := rigs[49].kicked(); kicks[0] < 99*ms {
			t.Errorf("the last stream kicked after %v, want it held back", kicks[0])
		}
	})
}

// TestDebtIsPaid: who went without a token used one that is to come.
func TestDebtIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 100, Burst: 10}) // 10 ms a token
		for range 400 {
			r := newRig(t, budget)
			r.onKick = func(context.Context) error { r.Applied(10); return nil }
			r.wait(t.Context(), 10)
		}
		// 10 went at once, some 10 by tokens, and the rest now because of their deadline.
		advance(100 * ms)
		late := newRig(t, budget)
		late.wait(t.Context(), 10)
		advance(100 * ms)
		late.wantKicks(t, 100*ms)
		// The debt is at most a burst: what remains of it ends.
		advance(time.Second)
		late.answer(10)
		late.wait(t.Context(), 11)
		if kicks := late.kicked(); kicks[len(kicks)-1] != late.elapsed() {
			t.Errorf("last kick at %v, want one at %v: there are tokens again", kicks[len(kicks)-1], late.elapsed())
		}
	})
}

// TestLongRunStaysNearRate with streams that always have a waiter, and all get
// their share.
func TestLongRunStaysNearRate(t *testing.T) {
	for _, rate := range []float64{600, 1000, 5000} {
		synctest.Test(t, func(t *testing.T) {
			const streams, seconds, burst = 50, 10, 100
			budget := NewCoordinator(Config{Rate: rate, Burst: burst})
			ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			rigs := make([]*rig, streams)
			for i := range rigs {
				r := newRig(t, budget)
				rigs[i] = r
				r.onKick = func(context.Context) error {
					if target, any := r.Lowest(); any {
						r.Applied(target)
					}
					return nil
				}
				wg.Go(func() {
					for revision := uint64(1); r.Wait(ctx, revision) == nil; revision++ {
					}
				})
			}
			wg.Wait()
			total, least := 0, 1<<30
			for _, r := range rigs {
				total += len(r.kicked())
				least = min(least, len(r.kicked()))
			}
			if most := int(rate*seconds) + burst + streams; total > most || total < int(rate*seconds)*95/100 {
				t.Errorf("%d kicks in %d s at rate %v, want at most %d and hardly less", total, seconds, rate, most)
			}
			if least < total/streams/2 {
				t.Errorf("a stream has %d kicks of %d", least, total)
			}
		})
	}
}

// TestWhoLeavesTakesItsRequest: a stream that is closed, or that nobody waits on
// any more, does not kick and costs others no token.
func TestWhoLeavesTakesItsRequest(t *testing.T) {
	for name, leave := range map[string]func(r *rig, cancel func()){
		"closed":    func(r *rig, _ func()) { r.Close() },
		"abandoned": func(_ *rig, cancel func()) { cancel() },
		"fresh":     func(r *rig, _ func()) { r.Applied(10) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budget := NewCoordinator(Config{Rate: 20, Burst: 1}) // 50 ms a token
				first, leaves, stays := newRig(t, budget), newRig(t, budget), newRig(t, budget)
				first.onKick = func(context.Context) error { first.Applied(10); return nil }
				first.wait(t.Context(), 10)
				advance(ms)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				leaves.wait(ctx, 10)
				advance(ms)
				stays.wait(t.Context(), 10)
				leave(leaves, cancel)
				leaves.wantIdle(t)
				advance(60 * ms)
				if kicks := stays.kicked(); len(kicks) == 0 {
					t.Error("the second token went to a stream that needs none")
				} else {
					wantAbout(t, "kick of who stays", kicks[0], 50*ms)
				}
				stays.answer(10)
				advance(time.Second)
				leaves.wantKicks(t)
				// The last leaves no timer behind either.
				again := stays.wait(t.Context(), 11)
				stays.answer(11)
				wantReturned(t, again, nil)
				budget.mu.Lock()
				defer budget.mu.Unlock()
				if len(budget.queue) != 0 || budget.timer != nil {
					t.Errorf("%d requests, timer %v are left", len(budget.queue), budget.timer)
				}
			})
		})
	}
}

// TestNobodyJumpsTheQueue, also where there is a token again.
func TestNobodyJumpsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 20, Burst: 1})
		first, second, third := newRig(t, budget), newRig(t, budget), newRig(t, budget)
		first.wait(t.Context(), 10)
		advance(ms)
		second.wait(t.Context(), 10)
		budget.refund()
		advance(ms)
		third.wait(t.Context(), 10)
		third.wantKicks(t)
		budget.release()
		second.wantKicks(t, 2*ms)
		third.wantKicks(t)
	})
}

// TestBlockedKickCostsOneToken, however often its backoff ends, and one that was to
// follow it and does not costs none.
func TestBlockedKickCostsOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 1e-9, Burst: 100})
		r := newRig(t, budget)
		r.onKick = func(ctx context.Context) error { <-ctx.Done(); return nil }
		r.wait(t.Context(), 10)
		advance(4500 * ms)
		want := func(used int) {
			t.Helper()
			if n := len(r.kicked()); n != 5 {
				t.Fatalf("%d kicks, want 5", n)
			}
			budget.mu.Lock()
			defer budget.mu.Unlock()
			if tokens := math.Round(budget.tokens); tokens != float64(100-used) {
				t.Errorf("%v tokens are left, want %d", tokens, 100-used)
			}
		}
		want(6) // the sixth is to follow
		r.answer(10)
		advance(time.Second)
		want(5)
	})
}

// TestLeavesWhileItIsAdmitted: the waiter leaves between the moment in which the
// budget lets its stream go and the one in which the stream hears of it. The token
// is not lost.
func TestLeavesWhileItIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 20, Burst: 1})
		first, second := newRig(t, budget), newRig(t, budget)
		first.wait(t.Context(), 10)
		ctx, cancel := context.WithCancel(t.Context())
		returned := second.wait(ctx, 10)
		budget.mu.Lock()
		budget.queue = budget.queue[:0] // the first half of release, which paid for it
		before := budget.tokens
		budget.mu.Unlock()
		cancel()
		wantReturned(t, returned, context.Canceled)
		second.admitted()
		second.wantKicks(t)
		second.wantIdle(t)
		if budget.tokens != before+1 {
			t.Errorf("%v tokens, want %v", budget.tokens, before+1)
		}
	})
}

func TestConfigDefaults(t *testing.T) {
	for _, cfg := range []Config{{}, {Rate: -1, Burst: -1}} {
		if c := NewCoordinator(cfg); c.rate != 1000 || c.burst != 100 || c.tokens != 100 {
			t.Errorf("%+v: rate %v, burst %v, tokens %v; want 1000, 100, 100", cfg, c.rate, c.burst, c.tokens)
		}
	}
}

// TestQueueLetsGo: a stream that has left the queue is nowhere in it, not even past
// its end: its cache may be gone for good.
func TestQueueLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 1, Burst: 1})
		newRig(t, budget).wait(t.Context(), 10) // takes the token
		var waits []context.CancelFunc
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			newRig(t, budget).wait(ctx, 10)
			waits = append(waits, cancel)
		}
		if n := len(budget.queue); n != 3 {
			t.Fatalf("%d streams are queued, want 3", n)
		}
		for _, cancel := range waits {
			cancel()
		}
		synctest.Wait()
		for i, r := range budget.queue[:cap(budget.queue)] {
			if r.stream != nil {
				t.Errorf("place %d of the empty queue still has a stream", i)
			}
		}
	})
}
