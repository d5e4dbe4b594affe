package progress

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rvfloor/rvfloor/internal/revision"
)

// ErrClosed is returned to whoever waits on a Stream that is closed.
var ErrClosed = errors.New("progress: stream is closed")

// StreamConfig says how the watch of one cache is asked for progress.
type StreamConfig struct {
	// Kick asks the backend to report the progress of this cache's watch. It is never
	// called on a waiter's goroutine, never twice at once, and its context ends after
	// Timeout and with Close. Required, unless Advance is set.
	Kick func(ctx context.Context) error
	// Advance, if set, is called in place of Kick, and in the same way. It sees to it that
	// the cache learns that it has reached target, by whatever means: the highest revision
	// waited for; 0: not known yet.
	Advance func(ctx context.Context, target uint64) error
	// Timeout bounds one call of Kick or Advance; 0 means 1 s.
	Timeout time.Duration
	// KickNow, if set, does the same where that can be done without waiting, and is false
	// where it cannot: then Kick or Advance is called. It is called on a waiter's goroutine.
	KickNow func() bool
	// Blind, if set, says whether a kick is of any use whose target is not known yet. It
	// must not block.
	Blind func() bool
	// Stuck, if set, is called when the backend answers kicks with a revision
	// below one that is waited for and that does not move. The target is the
	// lowest revision waited for.
	Stuck func(target uint64)
	// Silent, if set, is called when nothing has answered kicks for SilentTime while
	// somebody waited; and again each SilentTime.
	Silent func(target uint64)
	// Kicked, if set, is told the outcome of every kick.
	Kicked func(err error)
}

// Stream tracks what one cache has applied and who waits for more.
type Stream struct {
	cfg         StreamConfig
	coordinator *Coordinator
	life        context.Context // ends with Close
	end         context.CancelFunc
	applied     revision.Ratchet
	pays        ahead
	done        chan struct{}
	// interrupts counts calls of Interrupt; it is raised under mu.
	interrupts atomic.Uint64

	mu          sync.Mutex
	closed      bool
	interrupted error // what the newest Interrupt said
	groups      groupHeap
	// highest is no lower than any revision of groups.
	highest uint64
	byRev   map[uint64]*group
	kick    kickState
}

// group is all waiters for one revision. They share a channel, so that a waiter
// costs no allocation of its own and a wake-up costs one close.
type group struct {
	revision uint64
	waiters  int
	err      error     // woken by Close or Interrupt; set before done is closed
	since    time.Time // arrival of the first waiter
	index    int       // in the heap; -1 once woken or abandoned
	done     chan struct{}
}

// Wait blocks until the cache has applied revision, and returns nil; or until
// ctx ends, and returns its cause; or until the Stream is closed, and returns
// ErrClosed; or until Interrupt, and returns its error. The first waiter kicks at once.
func (s *Stream) Wait(ctx context.Context, revision uint64) error {
	return s.wait(ctx, revision, s.interrupts.Load())
}

// wait is Wait for a caller who came when there had been so many interrupts: of a later
// one it must hear, too.
func (s *Stream) wait(ctx context.Context, revision, interrupts uint64) error {
	if s.applied.Load() >= revision {
		return nil
	}
	g, due, err := s.join(revision, interrupts)
	if g == nil {
		return err
	}
	if due {
		s.kickNow()
	}
	// Two cases, not three with s.done: each costs a waiter 96 bytes.
	select {
	case <-g.done:
		if g.err == nil {
			return nil
		}
		err = g.err
	case <-ctx.Done():
		err = context.Cause(ctx)
		s.leave(g)
	}
	// It may have become fresh in the same moment, also where Applied has not come
	// to wake it yet.
	if s.applied.Load() >= revision {
		return nil
	}
	return err
}

// Applied tells that the cache has applied every event at or below revision, and
// wakes who waited for it. A lower revision than an earlier one is ignored.
func (s *Stream) Applied(revision uint64) {
	if !s.applied.Raise(revision) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The ratchet is raised before the lock is taken, and join looks at it under
	// the lock: so a waiter either sees the new revision or is woken here.
	now := s.applied.Load()
	if s.highest <= now {
		s.wakeAllLocked(nil) // mostly: one report is above all that is waited for
	}
	for len(s.groups) > 0 && s.groups[0].revision <= now {
		g := heap.Pop(&s.groups).(*group)
		delete(s.byRev, g.revision)
		close(g.done)
	}
	s.appliedLocked(now)
}

// Revision is what the cache has applied; 0 when nothing is known.
func (s *Stream) Revision() uint64 { return s.applied.Load() }

// Done is closed when the Stream is.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Lowest is the lowest revision that is waited for now; false when none is.
func (s *Stream) Lowest() (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.groups) == 0 {
		return 0, false
	}
	return s.groups[0].revision, true
}

// Waiters is the number of callers that wait now.
func (s *Stream) Waiters() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, g := range s.groups {
		n += g.waiters
	}
	return n
}

// Close wakes all waiters with ErrClosed and returns when no kick is in flight.
func (s *Stream) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.wakeAllLocked(ErrClosed)
		s.kick.stopLocked()
		s.end()
	}
	s.mu.Unlock()
	s.coordinator.forget(s)
	s.kick.calls.Wait()
}

// Interrupt wakes all who wait now, or will by an Ahead that began before, with err, which
// they are to be served for otherwise.
func (s *Stream) Interrupt(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupted = err
	s.interrupts.Add(1)
	s.wakeAllLocked(err)
	s.idleLocked()
}

// join adds the caller to the group of its revision. A nil group means that
// there is nothing to wait for, or an error. due: the caller is to send a kick.
func (s *Stream) join(revision, interrupts uint64) (g *group, due bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false, ErrClosed
	}
	if s.applied.Load() >= revision {
		return nil, false, nil
	}
	if s.interrupts.Load() != interrupts {
		return nil, false, s.interrupted
	}
	g = s.byRev[revision]
	if g == nil {
		g = &group{revision: revision, since: time.Now(), done: make(chan struct{})}
		s.byRev[revision] = g
		s.highest = max(s.highest, revision)
		heap.Push(&s.groups, g)
	}
	g.waiters++
	due = s.dueLocked(s.kickLocked)
	return g, due, nil
}

// keepGroups is how much room a Stream keeps for groups: a storm must not be paid for
// in memory ever after.
const keepGroups = 1024

// wakeAllLocked wakes every waiter, without what it costs to take them in order.
func (s *Stream) wakeAllLocked(err error) {
	for i, g := range s.groups {
		g.index, g.err = -1, err
		close(g.done)
		s.groups[i] = nil
	}
	s.highest = 0
	if len(s.groups) > keepGroups {
		s.groups, s.byRev = nil, map[uint64]*group{}
		return
	}
	s.groups = s.groups[:0]
	clear(s.byRev)
}

// leave takes a caller out of its group, unless it was woken, and the group with
// the last of them.
func (s *Stream) leave(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || g.index < 0 {
		return
	}
	g.waiters--
	if g.waiters == 0 {
		heap.Remove(&s.groups, g.index)
		delete(s.byRev, g.revision)
		if len(s.groups) == 0 {
			s.idleLocked()
		}
	}
}

// oldestLocked is the arrival of the oldest waiter.
func (s *Stream) oldestLocked() time.Time {
	var oldest time.Time
	for _, g := range s.groups {
		if oldest.IsZero() || g.since.Before(oldest) {
			oldest = g.since
		}
	}
	return oldest
}

// groupHeap orders groups by revision, lowest first.
type groupHeap []*group

func (h groupHeap) Len() int           { return len(h) }
func (h groupHeap) Less(i, j int) bool { return h[i].revision < h[j].revision }
func (h groupHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *groupHeap) Push(x any) {
	g := x.(*group)
	g.index = len(*h)
	*h = append(*h, g)
}

func (h *groupHeap) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	g.index = -1
	return g
}
