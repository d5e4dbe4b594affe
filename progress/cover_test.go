package progress

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A kick covers what was waited for when it was sent, and for so long. These are
// about its edges.

// TestEventsDoNotUncover: a kick that covers 10 and 20 is still under way when
// events bring the cache to 12.
func TestEventsDoNotUncover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		ten := r.wait(t.Context(), 10)
		r.wait(t.Context(), 20)
		advance(25 * ms) // the second kick, for both
		before := len(r.kicked())
		if before != 2 {
			t.Fatalf("%d kicks, want 2", before)
		}
		r.Applied(12)
		wantReturned(t, ten, nil)
		if n := len(r.kicked()); n != before {
			t.Errorf("%d kicks more", n-before)
		}
	})
}

// TestKickBesideAnother: one that goes out while another is outstanding has a
// backoff of its own, which that of the other does not end.
func TestKickBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		ctx, cancel := context.WithCancel(t.Context())
		ten := r.wait(ctx, 10)
		r.wait(t.Context(), 20)
		advance(10 * ms)
		cancel()
		wantReturned(t, ten, context.Canceled)
		r.wait(t.Context(), 30) // and nothing under way covers 20 and 30
		r.wantKicks(t, 0, 10*ms)
		advance(15 * ms)
		r.wantKicks(t, 0, 10*ms)
		advance(6 * ms)
		if n := len(r.kicked()); n != 3 {
			t.Errorf("%d kicks, want a third after 16 to 20 ms", n)
		}
	})
}

// TestAnswerStartsTheBackoffOver, also for those who still wait.
func TestAnswerStartsTheBackoffOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.onKick = func(context.Context) error { return errors.New("no watch yet") }
		r.wait(t.Context(), 10)
		r.wait(t.Context(), 20)
		advance(2 * time.Second) // each 80 to 100 ms by now
		r.setRoundTrip(ms)
		before := len(r.kicked())
		r.answer(15)
		r.setRoundTrip(ms) // it seemed to take up to 100 ms
		advance(20 * ms)
		kicks := r.kicked()
		if len(kicks) < before+1 || kicks[before] != 2*time.Second {
			t.Fatalf("kicks at %v, want one with the answer at %v", kicks[before:], 2*time.Second)
		}
		advance(80 * ms)
		if n := len(r.kicked()) - before; n < 3 {
			t.Errorf("%d kicks in 100 ms after the answer, want some, as at first", n)
		}
	})
}

// TestTimerThatFiredTooLate: the end of a backoff that waited for the lock while the
// kick was answered does not end the next kick's.
func TestTimerThatFiredTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.wait(t.Context(), 10)
		run := r.kick.timerRun
		advance(ms)
		r.answer(10)
		r.wait(t.Context(), 11)
		r.unanswered(run)
		r.wantKicks(t, 0, ms)
	})
}

// TestLowRepliesDoNotPutOffTheNextKick: reports that come by themselves, faster than
// the backoff ends, are no reason to ask later.
func TestLowRepliesDoNotPutOffTheNextKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.wait(t.Context(), 10)
		for range 1000 {
			r.Replied(5)
			advance(2 * ms)
		}
		if n := len(r.kicked()); n < 18 {
			t.Errorf("%d kicks in 2 s, want one each 100 ms at least", n)
		}
	})
}
