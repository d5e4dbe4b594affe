package progress

import (
	"context"
	"sync/atomic"
)

// Scores are moving averages over about eight reads, in 1/256.
const (
	scoreFull  = 256
	scoreHalf  = scoreFull / 2
	scoreShift = 3
	// retryAhead: where a kick beside the floor read did not pay, one read in so
	// many tries again, so that a stream whose backend changed is found.
	retryAhead = 64
)

// ahead is what is known of kicks that are sent beside the floor read: whether
// reads need a kick at all, and whether one sent so early reaches their floor.
// On kine it does not: the read must come first, it wakes kine's poll.
type ahead struct {
	need, miss atomic.Int32
	tries      atomic.Uint32
	sent, paid atomic.Uint64
}

// Ahead is a read that is about to learn its floor.
type Ahead struct {
	stream     *Stream
	interrupts uint64
	before     uint64 // applied when the read began
	sends      uint64
	kicked     bool
}

// Begin begins a read whose floor read is not sent at once.
func (s *Stream) Begin() Ahead {
	return Ahead{stream: s, interrupts: s.interrupts.Load(), before: s.applied.Load()}
}

// Ahead begins a read whose floor read is sent now. Where it has paid lately it
// kicks at once, so that the progress request travels beside the floor read
// instead of after it. What the reply proves does not depend on when it was asked
// for.
func (s *Stream) Ahead() Ahead {
	a := s.Begin()
	if !s.pays.likely() {
		return a
	}
	s.mu.Lock()
	due := s.dueLocked(func() { a.kicked = s.aheadLocked() })
	a.sends = s.kick.sends
	if s.kick.queued {
		a.sends++ // the budget holds this one back; it is not another
	}
	s.mu.Unlock()
	if due {
		s.kickNow()
	}
	return a
}

// Wait is Stream.Wait for a read begun with Ahead, and learns from it. It returns what
// an Interrupt said since the read began.
func (a Ahead) Wait(ctx context.Context, revision uint64) error {
	s := a.stream
	if err := s.wait(ctx, revision, a.interrupts); err != nil {
		return err
	}
	needed := a.before < revision
	score(&s.pays.need, needed)
	if a.kicked && needed {
		s.mu.Lock()
		reached := s.kick.sends == a.sends
		s.mu.Unlock()
		score(&s.pays.miss, !reached)
		s.pays.sent.Add(1)
		if reached {
			s.pays.paid.Add(1)
		}
	}
	return nil
}

// AheadPaid is how many kicks went out beside a floor read that needed one, and
// how many of these brought the cache to the floor without another.
func (s *Stream) AheadPaid() (paid, sent uint64) {
	return s.pays.paid.Load(), s.pays.sent.Load()
}

func (a *ahead) likely() bool {
	if a.need.Load() < scoreHalf {
		return false
	}
	return a.miss.Load() <= scoreHalf || a.tries.Add(1)%retryAhead == 0
}

// score moves an average. Two at once may lose one of them, which is no harm.
func score(average *atomic.Int32, hit bool) {
	old := average.Load()
	target := int32(0)
	if hit {
		target = scoreFull
	}
	average.Store(old + (target-old)>>scoreShift)
}
