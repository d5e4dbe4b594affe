package progress

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestStuck: a backend is stuck when three replies below the target did not move
// and the larger of 500 ms and 20 round trips has passed since the first of them.
func TestStuck(t *testing.T) {
	type reply struct {
		at       time.Duration
		revision uint64
	}
	for name, test := range map[string]struct {
		roundTrip time.Duration
		replies   []reply
		stuck     []time.Duration // at which replies
	}{
		"three replies within the time":       {0, []reply{{1 * ms, 5}, {2 * ms, 5}, {3 * ms, 5}, {500 * ms, 5}}, nil},
		"the time with two replies":           {0, []reply{{1 * ms, 5}, {5000 * ms, 5}}, nil},
		"both":                                {0, []reply{{1 * ms, 5}, {2 * ms, 5}, {501 * ms, 5}}, []time.Duration{501 * ms}},
		"the third after the time":            {0, []reply{{1 * ms, 5}, {900 * ms, 5}, {901 * ms, 5}}, []time.Duration{901 * ms}},
		"20 round trips are longer":           {50 * ms, []reply{{1 * ms, 5}, {2 * ms, 5}, {1000 * ms, 5}, {1001 * ms, 5}}, []time.Duration{1001 * ms}},
		"20 round trips are shorter":          {10 * ms, []reply{{1 * ms, 5}, {2 * ms, 5}, {500 * ms, 5}, {501 * ms, 5}}, []time.Duration{501 * ms}},
		"a move starts over":                  {0, []reply{{1 * ms, 5}, {2 * ms, 5}, {400 * ms, 6}, {501 * ms, 6}, {899 * ms, 6}, {900 * ms, 6}}, []time.Duration{900 * ms}},
		"moving all the time":                 {0, []reply{{0, 1}, {300 * ms, 2}, {600 * ms, 3}, {900 * ms, 4}, {1200 * ms, 5}, {1500 * ms, 6}, {1800 * ms, 7}}, nil},
		"going back is no move":               {0, []reply{{1 * ms, 5}, {2 * ms, 3}, {501 * ms, 4}}, []time.Duration{501 * ms}},
		"a reply that reached it starts over": {0, []reply{{1 * ms, 5}, {2 * ms, 5}, {3 * ms, 10}, {501 * ms, 5}, {502 * ms, 5}}, nil},
		"said once, then counted anew": {0, []reply{{0, 5}, {250 * ms, 5}, {500 * ms, 5}, {501 * ms, 5}, {502 * ms, 5}, {1000 * ms, 5}, {1001 * ms, 5}},
			[]time.Duration{500 * ms, 1001 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, ample())
				r.setRoundTrip(test.roundTrip)
				r.wait(t.Context(), 10)
				r.wait(t.Context(), 20)
				var stuck []time.Duration
				for _, reply := range test.replies {
					advance(reply.at - r.elapsed())
					before := len(r.stuck)
					r.Replied(reply.revision)
					if len(r.stuck) != before {
						stuck = append(stuck, r.elapsed())
					}
				}
				if !slices.Equal(stuck, test.stuck) {
					t.Errorf("stuck at %v, want %v", stuck, test.stuck)
				}
				for _, target := range r.stuck {
					if target != 10 {
						t.Errorf("target %d, want 10: the lowest that is waited for", target)
					}
				}
			})
		})
	}
}

// TestSilenceIsNotStuck: etcd does not answer until a watch is synced.
func TestSilenceIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		r.wait(t.Context(), 10)
		r.Replied(5)
		r.Replied(5)
		advance(time.Minute)
		if n := len(r.kicked()); n < 100 {
			t.Fatalf("%d kicks in a minute", n)
		}
		if len(r.stuck) != 0 {
			t.Error("stuck without a third reply")
		}
	})
}

// TestNobodyWaitsNobodyIsStuck: what came while nobody waited, or for waiters that
// are gone, does not count.
func TestNobodyWaitsNobodyIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, ample())
		for range 10 {
			r.Replied(5)
			advance(200 * ms)
		}
		first := r.wait(t.Context(), 10)
		r.Replied(5)
		r.Replied(5)
		advance(time.Second)
		r.Applied(10)
		wantReturned(t, first, nil)

		r.wait(t.Context(), 11)
		r.Replied(5)
		r.Replied(5)
		advance(3 * time.Second)
		r.Rebound() // those were of another watch
		r.Replied(5)
		r.Replied(5)
		if len(r.stuck) != 0 {
			t.Error("stuck")
		}
		advance(3 * time.Second) // above 20 of any round trip that was measured here
		r.Replied(5)
		if !slices.Equal(r.stuck, []uint64{11}) {
			t.Errorf("stuck %v, want it at 11", r.stuck)
		}
	})
}

// TestStuckMayCallTheStream: it is called without the lock.
func TestStuckMayCallTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Stream
		s = ample().NewStream(StreamConfig{
			Kick:  func(context.Context) error { return nil },
			Stuck: func(target uint64) { s.Applied(target) },
		})
		defer s.Close()
		returned := (&rig{Stream: s}).wait(t.Context(), 10)
		s.Replied(5)
		s.Replied(5)
		advance(500 * ms)
		wantBlocked(t, returned)
		s.Replied(5)
		wantReturned(t, returned, nil)
	})
}
