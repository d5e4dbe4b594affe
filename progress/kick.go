package progress

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rvfloor/rvfloor/internal/guard"
)

const (
	// maxBackoff caps the time between two kicks of one stream, and is also how
	// long the budget may hold a kick back: upstream's cacher asks each 100 ms, so
	// nobody waits longer for a kick than there.
	maxBackoff = 100 * time.Millisecond
	// minSilence is how long a kick may at least go without any reply. Replies take
	// a fraction of a millisecond; where one takes longer it is most often on its
	// way through a process that thousands of readers keep busy, and asking again
	// adds to that.
	minSilence = 20 * time.Millisecond
	// minRetry follows a reply that was below what is waited for: a follower that
	// is a little behind, as one in a cluster often is.
	minRetry = time.Millisecond
	// applyTimeout ends the trust in a reply that the cache does not apply.
	applyTimeout = time.Second
	// kickTimeout is StreamConfig.Timeout's default: Kick may block while the stream of
	// a watch reconnects.
	kickTimeout = time.Second
)

var errKickTimeout = errors.New("progress: the watch took no progress request in time")

// kickState is when a Stream asks. It is guarded by Stream.mu.
//
// A kick is outstanding until it is answered or its backoff ends, and covers the
// revisions that were waited for when it was sent: a synced watch answers it at
// or above them. So a waiter kicks only when the lowest revision waited for is
// not covered yet, and one floor kicks a stream once.
type kickState struct {
	queued      bool // waits for the budget
	calling     bool // StreamConfig.Advance has not returned
	inline      bool // whoever holds the lock sends what becomes due after it
	due         bool
	again       bool   // to be called again when it has
	outstanding bool   // sent, not answered, backoff not over
	heard       bool   // a reply came, and set when to ask again
	ahead       bool   // sent or queued before its target was known
	covered     uint64 // while outstanding
	sends       uint64
	attempt     int
	sentAt      time.Time
	roundTrip   time.Duration // moving average; 0: not measured
	timer       *time.Timer
	timerRun    uint64 // which timer counts: a stopped one may have fired already
	calls       sync.WaitGroup

	lastReply    uint64
	unmoved      int // replies at lastReply that were below what is waited for
	unmovedSince time.Time
	silentSince  time.Time // the first of the kicks that nothing has answered; zero: none
}

// Replied tells that the backend reported progress up to revision on this
// stream's watch, whether or not the cache has applied it yet.
func (s *Stream) Replied(revision uint64) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	k := &s.kick
	k.silentSince = time.Time{}
	if k.outstanding && (k.ahead || len(s.groups) > 0 && revision >= s.groups[0].revision) {
		// This is the answer. It covers what it reached, not what it was meant to.
		k.covered, k.ahead = min(k.covered, revision), false
		if s.applied.Load() >= k.covered {
			s.answeredLocked() // nothing new: no Applied will follow
		} else {
			k.heard = true
			s.armLocked(applyTimeout) // what is missing now is the cache's part
		}
	} else if k.outstanding && len(s.groups) > 0 && !k.heard {
		k.heard = true // the first: if each did, steady reports would put it off for good
		s.armLocked(k.backoff(max(k.roundTrip, minRetry)))
	}
	target, stuck := s.stuckLocked(revision)
	s.kickLocked()
	s.mu.Unlock()
	if stuck && s.cfg.Stuck != nil {
		s.cfg.Stuck(target)
	}
}

// Rebound tells that the cache's watch was opened anew. Kicks sent to the one
// before will not be answered, so whoever waits kicks at once.
func (s *Stream) Rebound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kick.settleLocked()
	s.kick.attempt, s.kick.unmoved, s.kick.silentSince = 0, 0, time.Time{}
	s.kickLocked()
}

// Hint asks for progress on behalf of somebody who does not wait on this Stream,
// unless a kick is under way already.
func (s *Stream) Hint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aheadLocked()
}

// kickLocked asks for progress if somebody waits for a revision that no kick
// covers.
func (s *Stream) kickLocked() {
	k := &s.kick
	if s.closed || len(s.groups) == 0 || k.queued ||
		k.outstanding && s.groups[0].revision <= k.covered {
		return
	}
	k.ahead = false
	s.requestLocked(s.oldestLocked())
}

// dueLocked runs ask, and tells whether a kick became due that the caller is to
// send once it has let go of the lock.
func (s *Stream) dueLocked(ask func()) bool {
	k := &s.kick
	k.inline = s.cfg.KickNow != nil
	ask()
	due := k.due
	k.inline, k.due = false, false
	return due
}

// aheadLocked asks for progress before a target is known.
func (s *Stream) aheadLocked() bool {
	k := &s.kick
	if s.closed || k.queued || k.outstanding || k.calling || s.cfg.Blind != nil && !s.cfg.Blind() {
		return false
	}
	k.ahead = true
	s.requestLocked(time.Now())
	return true
}

func (s *Stream) requestLocked(since time.Time) {
	s.kick.queued = true
	if s.coordinator.admit(s, since) {
		s.sendLocked()
	}
}

// admitted is called by the Coordinator for a stream that had to queue.
func (s *Stream) admitted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kick.queued {
		s.coordinator.refund() // who waited left in this moment
		return
	}
	s.sendLocked()
}

func (s *Stream) sendLocked() {
	k := &s.kick
	k.queued = false
	if s.closed || len(s.groups) == 0 && !k.ahead {
		s.coordinator.refund() // who waited has gone
		return
	}
	k.outstanding, k.heard, k.covered, k.sentAt = true, false, math.MaxUint64, time.Now()
	if !k.ahead {
		k.covered = s.targetLocked()
		if k.silentSince.IsZero() {
			k.silentSince = k.sentAt
		}
	}
	s.armLocked(k.backoff(max(4*k.roundTrip, minSilence)))
	if k.calling {
		// The call before has not returned: it blocks, or its answer was faster.
		if k.again {
			s.coordinator.refund()
		}
		k.again = true
		return
	}
	k.sends++
	k.calling = true
	if k.inline {
		k.due = true
		return
	}
	s.callLocked()
}

// targetLocked is the highest revision that is waited for; 0: none is.
func (s *Stream) targetLocked() (target uint64) {
	for _, g := range s.groups {
		target = max(target, g.revision)
	}
	return target
}

func (s *Stream) callLocked() {
	s.kick.calls.Go(func() {
		for again := true; again; {
			again = s.call()
		}
	})
}

// kickNow sends the kick that became due under the lock, on the goroutine of the
// caller: on a busy machine a goroutine of its own starts late.
func (s *Stream) kickNow() {
	sent := false
	_ = guard.Call(func() error { sent = s.cfg.KickNow(); return nil }) // Advance will say what is wrong
	if sent && !s.called(nil) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.callLocked()
	}
}

// call is one call of StreamConfig.Advance. It tells whether another is to follow,
// which saves who came during this one the wait for the end of a backoff.
func (s *Stream) call() (again bool) {
	ctx, cancel := context.WithTimeoutCause(s.life, s.cfg.Timeout, errKickTimeout)
	defer cancel()
	s.mu.Lock()
	target := s.targetLocked()
	s.mu.Unlock()
	return s.called(guard.Call(func() error { return s.cfg.Advance(ctx, target) }))
}

// called notes that a kick was sent, or why not.
func (s *Stream) called(err error) (again bool) {
	s.mu.Lock()
	k := &s.kick
	again = k.again && k.outstanding
	switch {
	case again:
		k.sends++
		k.sentAt = time.Now()
	case k.again:
		s.coordinator.refund()
	}
	k.again, k.calling = false, again
	s.mu.Unlock()
	if s.cfg.Kicked != nil {
		s.cfg.Kicked(err)
	}
	return again
}

// armLocked sets when the outstanding kick is given up.
func (s *Stream) armLocked(after time.Duration) {
	k := &s.kick
	if k.timer != nil {
		k.timer.Stop()
	}
	k.timerRun++
	run := k.timerRun
	k.timer = time.AfterFunc(after, func() { s.unanswered(run) })
}

// unanswered is the end of a kick's backoff.
func (s *Stream) unanswered(run uint64) {
	s.mu.Lock()
	k := &s.kick
	if run != k.timerRun || !k.outstanding {
		s.mu.Unlock()
		return
	}
	k.settleLocked()
	k.attempt++
	if len(s.groups) == 0 {
		k.attempt = 0
	}
	target, silent := s.silentLocked()
	s.kickLocked()
	s.mu.Unlock()
	if silent && s.cfg.Silent != nil {
		s.cfg.Silent(target)
	}
}

// appliedLocked settles the kick that brought the cache here, and kicks for who
// still waits.
func (s *Stream) appliedLocked(now uint64) {
	k := &s.kick
	if k.outstanding && now >= k.covered {
		s.answeredLocked()
	}
	if len(s.groups) == 0 {
		s.idleLocked()
		return
	}
	s.kickLocked()
}

// answeredLocked settles a kick whose answer the cache has applied.
func (s *Stream) answeredLocked() {
	k := &s.kick
	sample := time.Since(k.sentAt)
	if k.roundTrip == 0 {
		k.roundTrip = sample
	}
	k.roundTrip += (sample - k.roundTrip) / 8
	k.settleLocked()
	k.attempt, k.silentSince = 0, time.Time{}
}

// settleLocked ends the outstanding kick.
func (k *kickState) settleLocked() {
	k.outstanding, k.ahead, k.covered = false, false, 0
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// idleLocked ends what was asked for waiters that are gone. A kick sent ahead
// stays: its caller is still reading its floor.
func (s *Stream) idleLocked() {
	k := &s.kick
	k.attempt, k.unmoved, k.silentSince = 0, 0, time.Time{}
	if k.ahead {
		return
	}
	k.settleLocked()
	if k.queued {
		k.queued = false
		s.coordinator.forget(s)
	}
}

func (k *kickState) stopLocked() {
	k.settleLocked()
	k.queued = false
}

// backoff doubles first with each attempt, up to maxBackoff, and is a little less
// at random so that streams spread.
func (k *kickState) backoff(first time.Duration) time.Duration {
	d := first
	for range k.attempt {
		if d >= maxBackoff {
			break
		}
		d *= 2
	}
	d = min(d, maxBackoff)
	return d - time.Duration(rand.Int64N(int64(d)/5))
}
