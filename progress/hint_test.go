package progress

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestReplyToAHintIsTooLow: whoever joined it kicks when it is answered, not when
// the cache has applied that.
func TestReplyToAHintIsTooLow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.Hint()
		r.wait(t.Context(), 10)
		advance(ms)
		r.Replied(8)
		r.wantKicks(t, 0, ms)
		r.Applied(8)
		r.wantKicks(t, 0, ms)
	})
}

// TestUnansweredHintsDoNotSlowAWaiter: their backoff is not the waiter's.
func TestUnansweredHintsDoNotSlowAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		for range 10 {
			r.Hint()
			advance(time.Second)
		}
		r.wait(t.Context(), 10)
		advance(20 * ms)
		if n := len(r.kicked()); n != 12 {
			t.Errorf("%d kicks, want 10 of the hints and 2 of the waiter", n)
		}
	})
}

// TestHintOutlivesAWaiter: it was not the waiter's to take away.
func TestHintOutlivesAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.Hint()
		ctx, cancel := context.WithCancel(t.Context())
		returned := r.wait(ctx, 10)
		cancel()
		wantReturned(t, returned, context.Canceled)
		advance(ms)
		second := r.wait(t.Context(), 11)
		r.wantKicks(t, 0)
		r.answer(11)
		wantReturned(t, second, nil)
		r.wantKicks(t, 0)
	})
}

// TestHintDuringACall: the call has not returned, so a kick is under way.
func TestHintDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		proceed := make(chan struct{})
		r.onKick = func(context.Context) error { <-proceed; return nil }
		r.Hint()
		r.answer(10)
		r.Hint()
		close(proceed)
		r.wantKicks(t, 0)
		r.wantIdle(t)
	})
}

// TestReboundDropsAHintThatIsHeldBack, and its token is not lost: a watch that is
// opened anew reports by itself, and who waits kicks.
func TestReboundDropsAHintThatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 20, Burst: 1}) // 50 ms a token
		first, hinted := newRig(t, budget), newRig(t, budget)
		first.wait(t.Context(), 10)
		first.answer(10)
		hinted.Hint()
		hinted.Rebound()
		advance(60 * ms)
		hinted.wantKicks(t)
		first.wait(t.Context(), 11)
		first.wantKicks(t, 0, 60*ms)
	})
}
