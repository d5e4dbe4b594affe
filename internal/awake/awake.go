// Package awake measures time for tests that have to bound it, where other processes
// keep the machine busy.
package awake

import (
	"sync"
	"sync/atomic"
	"time"
)

const tick = 10 * time.Millisecond

// Clock measures how long this process ran. What a busy machine keeps from all of it is
// nobody's delay: a tick counts once, however late it comes. So it never runs ahead of the
// time of day, and a bound on it is broken by who waits, not by who gets no core.
type Clock struct {
	ticks   atomic.Int64
	stop    chan struct{}
	stopped sync.WaitGroup
}

// Start returns a Clock that runs until Stop.
func Start() *Clock {
	c := &Clock{stop: make(chan struct{})}
	c.stopped.Go(c.run)
	return c
}

func (c *Clock) run() {
	for {
		// Not a Ticker, which makes up for a late tick by an early one.
		select {
		case <-time.After(tick):
			c.ticks.Add(1)
		case <-c.stop:
			return
		}
	}
}

// Now is the time since Start, in ticks of 10 ms.
func (c *Clock) Now() time.Duration { return time.Duration(c.ticks.Load()) * tick }

// Stop is called once.
func (c *Clock) Stop() {
	close(c.stop)
	c.stopped.Wait()
}
