package progress

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStress runs streams of one small budget at full speed on a real clock:
// callers that come and go, a backend that answers kicks late, out of order, not at
// all, or not within the call, and watches that are opened anew. It is for the race
// detector; it also holds that a Wait which returns nil is fresh, and that nobody
// waits for ever.
func TestStress(t *testing.T) {
	const streams, callers = 4, 8
	reads := 4000
	if testing.Short() {
		reads = 500
	}
	budget := NewCoordinator(Config{Rate: 2000, Burst: 5})
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() { stress(t, budget, callers, reads/streams) })
	}
	wg.Wait()
	budget.mu.Lock()
	defer budget.mu.Unlock()
	if len(budget.queue) != 0 {
		t.Errorf("%d requests are left", len(budget.queue))
	}
}

func stress(t *testing.T, budget *Coordinator, callers, reads int) {
	var (
		revision atomic.Uint64 // of the backend
		inKick   atomic.Int32
		kicks    = make(chan struct{}, 1)
		gone     = errors.New("the caller went")
	)
	s := budget.NewStream(StreamConfig{
		Kick: func(ctx context.Context) error {
			if inKick.Add(1) != 1 {
				t.Error("Kick was called twice at once")
			}
			defer inKick.Add(-1)
			select {
			case kicks <- struct{}{}:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
		Kicked: func(error) {},
		Stuck:  func(uint64) {},
	})
	backend, stop := context.WithCancel(context.Background())
	var answering, reading sync.WaitGroup
	answering.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-kicks:
			case <-backend.Done():
				return
			}
			now := revision.Load()
			switch n % 10 {
			case 3: // none
			case 5: // too low
				s.Replied(now / 2)
			case 7:
				s.Rebound()
			default:
				s.Replied(now)
				s.Applied(now)
			}
		}
	})
	for caller := range callers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 3))
			for range reads {
				ctx, cancel := context.WithCancelCause(context.Background())
				read := s.Ahead()
				floor := revision.Add(1)
				goes := random.IntN(3) == 0
				if goes {
					time.AfterFunc(time.Duration(random.IntN(1000))*time.Microsecond, func() { cancel(gone) })
				}
				switch err := read.Wait(ctx, floor); {
				case err == nil && s.Revision() < floor:
					t.Errorf("returned at %d, below the floor %d", s.Revision(), floor)
				case err != nil && (err != gone || !goes):
					t.Errorf("Wait returned %v", err)
				}
				if random.IntN(10) == 0 {
					s.Hint()
					s.Waiters()
					s.Lowest()
				}
				cancel(nil)
			}
		})
	}
	reading.Wait()
	s.mu.Lock()
	if len(s.groups) != 0 || len(s.byRev) != 0 {
		t.Errorf("%d groups in the heap and %d in the map are left", len(s.groups), len(s.byRev))
	}
	s.mu.Unlock()

	// Close among waiters that nobody answers.
	stop()
	answering.Wait()
	for i := range callers {
		reading.Go(func() {
			if err := s.Wait(context.Background(), revision.Load()+uint64(i+1)); err != ErrClosed {
				t.Errorf("Wait returned %v, want %v", err, ErrClosed)
			}
		})
	}
	s.Close()
	reading.Wait()
}
