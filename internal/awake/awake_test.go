package awake

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start()
		defer c.Stop()
		time.Sleep(time.Second + tick/2)
		if got := c.Now(); got != time.Second {
			t.Errorf("after a second: %v", got)
		}
	})
}

// TestLateTicks: ticks that come late are not made up for.
func TestLateTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Clock{stop: make(chan struct{})}
		time.Sleep(time.Minute) // it gets no core
		c.stopped.Go(c.run)
		defer c.Stop()
		time.Sleep(tick + tick/2)
		if got := c.Now(); got != tick {
			t.Errorf("after a minute without a core and a tick with one: %v", got)
		}
	})
}
