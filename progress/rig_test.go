package progress

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// rig is a Stream in a synctest bubble, and what reached its backend. The backend
// stays silent unless the test answers for it.
type rig struct {
	*Stream
	start time.Time
	// onKick, if set before the first kick, is what Kick does.
	onKick func(ctx context.Context) error

	mu       sync.Mutex
	kicks    []time.Duration // when Kick was called, since start
	outcomes []error
	stuck    []uint64
}

// ample is a budget that holds nothing back.
func ample() *Coordinator { return NewCoordinator(Config{Rate: 1e6, Burst: 1e6}) }

func newRig(t *testing.T, c *Coordinator) *rig {
	r := &rig{start: time.Now()}
	r.Stream = c.NewStream(StreamConfig{
		Kick: func(ctx context.Context) error {
			r.mu.Lock()
			r.kicks = append(r.kicks, time.Since(r.start))
			r.mu.Unlock()
			if r.onKick == nil {
				return nil
			}
			return r.onKick(ctx)
		},
		Kicked: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.outcomes = append(r.outcomes, err)
		},
		Stuck: func(target uint64) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stuck = append(r.stuck, target)
		},
	})
	t.Cleanup(r.Close)
	return r
}

// wait waits on a goroutine of its own, which is blocked, or done, when it returns.
func (r *rig) wait(ctx context.Context, revision uint64) <-chan error {
	returned := make(chan error, 1)
	go func() { returned <- r.Wait(ctx, revision) }()
	synctest.Wait()
	return returned
}

// answer is a progress reply that the cache applies at once.
func (r *rig) answer(revision uint64) {
	r.Replied(revision)
	r.Applied(revision)
	synctest.Wait()
}

func (r *rig) kicked() []time.Duration {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.kicks)
}

// wantKicks demands kicks at exactly these times since the rig was made.
func (r *rig) wantKicks(t *testing.T, want ...time.Duration) {
	t.Helper()
	if got := r.kicked(); !slices.Equal(got, want) {
		t.Fatalf("kicks at %v, want them at %v", got, want)
	}
}

// elapsed is the time of the bubble since the rig was made.
func (r *rig) elapsed() time.Duration { return time.Since(r.start) }

// wantIdle demands that nothing is left of whoever waited.
func (r *rig) wantIdle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	r.Stream.mu.Lock()
	defer r.Stream.mu.Unlock()
	if n, m := len(r.groups), len(r.byRev); n != 0 || m != 0 {
		t.Errorf("%d groups in the heap and %d in the map are left", n, m)
	}
	if r.kick.timer != nil || r.kick.outstanding {
		t.Errorf("a kick is left: timer %v, outstanding %v", r.kick.timer, r.kick.outstanding)
	}
}

// advance lets the bubble's time pass and what happens in it end.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// wantReturned demands that a wait has returned this.
func wantReturned(t *testing.T, returned <-chan error, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-returned:
		if err != want {
			t.Fatalf("Wait returned %v, want %v", err, want)
		}
	default:
		t.Fatalf("Wait has not returned, want %v", want)
	}
}

func wantBlocked(t *testing.T, returned <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-returned:
		t.Fatalf("Wait returned %v, want it to wait", err)
	default:
	}
}

// setRoundTrip stands for what was measured before.
func (r *rig) setRoundTrip(d time.Duration) {
	r.Stream.mu.Lock()
	defer r.Stream.mu.Unlock()
	r.kick.roundTrip = d
}
