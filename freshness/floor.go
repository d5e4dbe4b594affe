package freshness

import (
	"sync"
	"time"
)

// Floor is a revision below which nothing fresh lies: every write that the
// backend acknowledged before SentAt is at or below it.
type Floor struct {
	// Revision is never 0.
	Revision uint64
	// SentAt was read just before the read of the floor was sent. It carries the
	// monotonic clock of this process.
	SentAt time.Time
}

// age is how long ago the read of the floor was sent, by the clock that says
// longer. The monotonic clock may stand still while a machine is suspended, and
// the wall clock may be set back: neither alone keeps a bound.
func (f Floor) age(wall time.Time) time.Duration {
	return max(time.Since(f.SentAt), wall.Sub(f.SentAt))
}

// newest is the floor read last; its revision is 0 before the first.
type newest struct {
	mu    sync.RWMutex
	floor Floor
}

func (n *newest) load() Floor {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.floor
}

func (n *newest) store(floor Floor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.floor = floor
}

// wallClock reads the wall clock alone, so that what is compared with it is too.
func wallClock() time.Time { return time.Now().Round(0) }
