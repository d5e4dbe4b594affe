package freshness

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	for _, test := range []struct {
		name  string
		wait  time.Duration // between the answer of the first read and Within
		jump  time.Duration // of the wall clock, in that time
		age   time.Duration
		reads int64 // 1: the first one's floor is used
	}{
		// A read takes a second, and its age counts from when it was sent.
		{"young", 3 * time.Second, 0, 4 * time.Second, 1},
		{"old", 3 * time.Second, 0, 4*time.Second - 1, 2},
		{"suspended: the wall clock says more", 0, time.Hour, 4 * time.Second, 2},
		{"the wall clock was set back: the monotonic clock says more", 4 * time.Second, -time.Hour, 4 * time.Second, 2},
		{"the wall clock was set back, and it is young all the same", 3 * time.Second, -time.Hour, 4 * time.Second, 1},
		{"the wall clock says more, but not too much", 1 * time.Second, 2 * time.Second, 4 * time.Second, 1},
		{"no age", 0, 0, 0, 2},
		{"negative age, and a wall clock that is before the floor", 0, -time.Hour, -time.Second, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := at(5)
				floors := newFloors(t, backend, Config{})
				var jump time.Duration
				floors.wall = func() time.Time { return wallClock().Add(jump) }

				start := time.Now()
				first, err := floors.Within(t.Context(), test.age)
				if err != nil || first != (Floor{5, start}) {
					t.Fatalf("first: %v, %v", first, err)
				}
				backend.revision.Store(6)
				time.Sleep(test.wait)
				jump = test.jump

				start = time.Now()
				want := Floor{6, start}
				if test.reads == 1 {
					want = first
				}
				got, err := floors.Within(t.Context(), test.age)
				if err != nil || got != want {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
				if n := backend.reads.Load(); n != test.reads {
					t.Errorf("%d reads, want %d", n, test.reads)
				}
			})
		})
	}
}

// TestWithinNothing: an age of nothing allows no floor of another, not even one
// that the clock cannot tell from now.
func TestWithinNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Uint64
		floors := newFloors(t, SourceFunc(func(context.Context) (uint64, error) { return reads.Add(1), nil }), Config{})
		for i, age := range []time.Duration{0, -1, 0, 1, -1 << 63} {
			want := []uint64{1, 2, 3, 3, 4}[i]
			if got, err := floors.Within(t.Context(), age); err != nil || got.Revision != want {
				t.Errorf("within %v: %v, %v; want revision %d", age, got, err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := floors.Within(ctx, time.Hour); err != context.Canceled || got != (Floor{}) {
			t.Errorf("a caller that has gone got %v, %v", got, err)
		}
	})
}
