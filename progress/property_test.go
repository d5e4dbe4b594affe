package progress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnyOrder: whatever the order of Wait, Applied, cancellations and replies, a
// waiter returns nil if and only if its revision is applied, else the cause of its
// own context or ErrClosed, and not before; and nothing is left at the end.
func TestAnyOrder(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			newModel(t, seed).run()
			if t.Failed() {
				t.Fatalf("with seed %d", seed)
			}
		})
	}
}

// model knows what a Stream must do.
type model struct {
	*rig
	t       *testing.T
	budget  *Coordinator
	rand    *rand.Rand
	applied uint64
	waiters []*modelWaiter // that have not returned
}

type modelWaiter struct {
	revision  uint64
	cause     error
	cancel    context.CancelCauseFunc
	cancelled bool
	fresh     bool // applied, and not cancelled before
	returned  <-chan error
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1))}
	m.budget = NewCoordinator(Config{Rate: 1 + 200*m.rand.Float64(), Burst: 1 + m.rand.IntN(5)})
	m.rig = newRig(t, m.budget)
	kicks := rand.New(rand.NewPCG(seed, 2)) // Kick is never called twice at once
	m.onKick = func(ctx context.Context) error {
		switch kicks.IntN(4) {
		case 0:
			return errors.New("no watch")
		case 1:
			select {
			case <-time.After(time.Duration(kicks.IntN(2000)) * ms):
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		}
		return nil
	}
	return m
}

func (m *model) run() {
	for range 150 {
		for range 1 + m.rand.IntN(3) { // these happen together
			m.step()
		}
		m.check()
	}
	closing := m.rand.IntN(2) == 0
	if closing {
		go m.Close()
	}
	for _, w := range m.waiters {
		if !closing {
			w.cancelled = true
			w.cancel(w.cause)
		}
	}
	synctest.Wait()
	for _, w := range m.waiters {
		want := w.cause
		if closing && !w.cancelled {
			want = ErrClosed
		}
		wantReturned(m.t, w.returned, want)
		w.cancel(nil)
	}
	// What was sent ahead of a floor ends with its backoff, and a queued one with
	// its deadline.
	advance(5 * time.Second)
	m.wantIdle(m.t)
	if n := m.Waiters(); n != 0 {
		m.t.Errorf("%d waiters are left", n)
	}
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	if len(m.budget.queue) != 0 || m.budget.timer != nil {
		m.t.Errorf("%d requests, timer %v are left", len(m.budget.queue), m.budget.timer)
	}
}

func (m *model) step() {
	near := func() uint64 { return m.applied + uint64(m.rand.IntN(8)) }
	switch m.rand.IntN(12) {
	case 0, 1, 2, 3:
		m.begin(near())
	case 4, 5:
		if len(m.waiters) > 0 {
			w := m.waiters[m.rand.IntN(len(m.waiters))]
			w.cancelled = true
			w.cancel(w.cause)
		}
	case 6:
		revision := near()
		m.Applied(revision)
		m.applied = max(m.applied, revision)
		for _, w := range m.waiters {
			w.fresh = w.fresh || !w.cancelled && w.revision <= m.applied
		}
	case 7:
		m.Replied(near())
	case 8:
		m.Rebound()
	case 9:
		m.Hint()
	default:
		time.Sleep(time.Duration(m.rand.IntN(40)) * ms)
	}
}

func (m *model) begin(revision uint64) {
	w := &modelWaiter{revision: revision, cause: fmt.Errorf("waiter %d for %d went", len(m.waiters), revision), fresh: revision <= m.applied}
	var ctx context.Context
	ctx, w.cancel = context.WithCancelCause(m.t.Context())
	returned := make(chan error, 1)
	w.returned = returned
	wait := m.Wait
	if m.rand.IntN(3) == 0 {
		wait = m.Ahead().Wait
	}
	go func() {
		err := wait(ctx, revision)
		if applied := m.Revision(); err == nil && applied < revision {
			m.t.Errorf("a wait for %d returned nil at %d", revision, applied)
		}
		returned <- err
	}()
	m.waiters = append(m.waiters, w)
}

// check compares the Stream with the model after all that happened together.
func (m *model) check() {
	synctest.Wait()
	still := m.waiters[:0]
	revisions := map[uint64]bool{}
	for _, w := range m.waiters {
		select {
		case err := <-w.returned:
			switch {
			case err == nil && w.revision <= m.applied:
			case err == w.cause && w.cancelled && !w.fresh:
			default:
				m.t.Errorf("a wait for %d returned %v at %d; cancelled %v, fresh before %v", w.revision, err, m.applied, w.cancelled, w.fresh)
			}
			w.cancel(nil)
		default:
			if w.revision <= m.applied || w.cancelled {
				m.t.Errorf("a wait for %d has not returned at %d; cancelled %v", w.revision, m.applied, w.cancelled)
			}
			still = append(still, w)
			revisions[w.revision] = true
		}
	}
	m.waiters = still
	if n := m.Waiters(); n != len(still) {
		m.t.Errorf("%d waiters, want %d", n, len(still))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.Stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.groups) != len(revisions) || len(s.byRev) != len(revisions) {
		m.t.Errorf("%d groups in the heap and %d in the map, want %d", len(s.groups), len(s.byRev), len(revisions))
	}
	for i, g := range s.groups {
		if g.index != i || s.byRev[g.revision] != g || !revisions[g.revision] || g.waiters == 0 || i > 0 && s.groups[(i-1)/2].revision > g.revision {
			m.t.Errorf("group %d of the heap is wrong: %+v", i, g)
		}
	}
	k := &s.kick
	if len(s.groups) > 0 && !k.queued && !k.outstanding {
		m.t.Error("there are waiters, and no kick is under way or due")
	}
	if k.outstanding != (k.timer != nil) {
		m.t.Errorf("outstanding is %v with timer %v", k.outstanding, k.timer)
	}
}
