package progress

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestAbandonedWaitersLeaveNothing: a cancellation frees only its caller, with the
// cause of its context, and the last of a group takes the group with it.
func TestAbandonedWaitersLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		type waiter struct {
			cancel   context.CancelCauseFunc
			cause    error
			returned <-chan error
		}
		var waiters []waiter
		for i := range 100 {
			ctx, cancel := context.WithCancelCause(t.Context())
			waiters = append(waiters, waiter{cancel, fmt.Errorf("caller %d went", i), r.wait(ctx, 100+uint64(i%7))})
		}
		for i, w := range waiters {
			if n := r.Waiters(); n != 100-i {
				t.Fatalf("%d waiters, want %d", n, 100-i)
			}
			for _, other := range waiters[i:] {
				wantBlocked(t, other.returned)
			}
			w.cancel(w.cause)
			wantReturned(t, w.returned, w.cause)
		}
		r.wantIdle(t)
		if lowest, any := r.Lowest(); any {
			t.Errorf("%d is waited for", lowest)
		}
		before := len(r.kicked())
		advance(time.Minute)
		if n := len(r.kicked()); n != before {
			t.Errorf("%d kicks for nobody", n-before)
		}
	})
}

// TestLowestGroupIsAbandoned: others still wait, and are kicked for.
func TestLowestGroupIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		ctx, cancel := context.WithCancel(t.Context())
		low := r.wait(ctx, 10)
		high := r.wait(t.Context(), 20)
		cancel()
		wantReturned(t, low, context.Canceled)
		if lowest, _ := r.Lowest(); lowest != 20 {
			t.Errorf("lowest is %d, want 20", lowest)
		}
		r.answer(12) // of the kick for 10
		r.wantKicks(t, 0, 0)
		r.answer(20)
		wantReturned(t, high, nil)
		r.wantIdle(t)
	})
}

// TestDeadlineIsKept to the instant, whatever the backoff and the budget do.
func TestDeadlineIsKept(t *testing.T) {
	cause := errors.New("the caller's deadline")
	for name, c := range map[string]Config{"ample": {}, "no budget": {Rate: 0.001, Burst: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, NewCoordinator(c))
				r.wait(t.Context(), 5)
				ctx, cancel := context.WithTimeoutCause(t.Context(), 100*ms, cause)
				defer cancel()
				if err := r.Wait(ctx, 10); err != cause {
					t.Errorf("Wait returned %v, want %v", err, cause)
				}
				if took := r.elapsed(); took != 100*ms {
					t.Errorf("Wait took %v, want 100ms", took)
				}
			})
		})
	}
}

// TestContextThatHasEnded: what is applied is answered all the same, and the rest
// is not waited for.
func TestContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.Applied(10)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantReturned(t, r.wait(ctx, 10), nil)
		wantReturned(t, r.wait(ctx, 11), context.Canceled)
		r.wantIdle(t)
	})
}

// TestFreshInTheMomentOfTheCancellation: Applied raises the revision before it
// takes the lock that wakes. A caller whose context ends in between is fresh.
func TestFreshInTheMomentOfTheCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		ctx, cancel := context.WithCancel(t.Context())
		returned := r.wait(ctx, 10)
		r.applied.Raise(10)
		cancel()
		wantReturned(t, returned, nil)
		r.wantIdle(t)
	})
}

// TestFreshInTheMomentOfTheArrival: Applied may have come and gone between a
// waiter's first look and its place among those who are woken.
func TestFreshInTheMomentOfTheArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.Applied(10)
		if g, _, err := r.join(10, 0); g != nil || err != nil {
			t.Errorf("join returned %v, %v; want nothing to wait for", g, err)
		}
		r.wantIdle(t)
		r.wantKicks(t)
	})
}

func TestAppliedOnlyGoesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.Applied(10)
		r.Applied(7)
		if got := r.Revision(); got != 10 {
			t.Errorf("Revision is %d, want 10", got)
		}
		wantReturned(t, r.wait(t.Context(), 10), nil)
	})
}

// TestWakesInOrderOfRevision: Applied wakes whom it reached and nobody else.
func TestWakesInOrderOfRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		waits := map[uint64]<-chan error{}
		for i := range uint64(50) {
			revision := 1 + i*37%50 // each of 1 to 50, in no order
			waits[revision] = r.wait(t.Context(), revision)
		}
		for applied := uint64(5); applied <= 50; applied += 5 {
			r.Applied(applied)
			for revision := applied - 4; revision <= applied; revision++ {
				wantReturned(t, waits[revision], nil)
			}
			for revision := applied + 1; revision <= 50; revision++ {
				wantBlocked(t, waits[revision])
			}
		}
		r.wantIdle(t)
	})
}

func TestCloseWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		var waits []<-chan error
		for i := range uint64(1000) {
			waits = append(waits, r.wait(t.Context(), 1+i%100))
		}
		r.Close()
		for _, returned := range waits {
			wantReturned(t, returned, ErrClosed)
		}
		r.Close()
		r.wantIdle(t)
		wantReturned(t, r.wait(t.Context(), 5), ErrClosed)
		if n := r.Waiters(); n != 0 {
			t.Errorf("%d waiters, want 0", n)
		}
	})
}

// TestCloseWaitsForAKick: each call of it, also a second one beside the first.
func TestCloseWaitsForAKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		proceed := make(chan struct{})
		r.onKick = func(context.Context) error { <-proceed; return nil }
		wait := r.wait(t.Context(), 10)
		closed := make(chan struct{}, 2)
		for range 2 {
			go func() { r.Close(); closed <- struct{}{} }()
		}
		wantReturned(t, wait, ErrClosed) // at once
		if n := len(closed); n != 0 {
			t.Fatalf("%d of 2 calls of Close returned before the kick", n)
		}
		close(proceed)
		synctest.Wait()
		if n := len(closed); n != 2 {
			t.Fatalf("%d of 2 calls of Close returned after the kick", n)
		}
		advance(time.Minute)
		r.wantKicks(t, 0)
	})
}

func TestStreamWithoutKickPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewStream took a StreamConfig without Kick")
		}
	}()
	NewCoordinator(Config{}).NewStream(StreamConfig{})
}
