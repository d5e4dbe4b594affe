package joinnext

import (
	"runtime"
	"time"
)

// limit is the end of all that began within a 64th of its time: callers who wait, and
// calls. They share its timer, which costs a third of a call that is answered at once
// where each has one.
type limit struct {
	done   chan struct{} // closed when it ends
	shared time.Time     // what begins before shares it
}

// over is closed when the limit ends; a nil one never does.
func (l *limit) over() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.done
}

// newLimit ends after left of the time in which this process kept up, and then calls ended,
// which may be nil.
//
// A timer tells that time has passed, not that the process had any of it. With a thousand new
// connections on one slow core, what a backend has answered waits for seconds until it is read,
// and a limit by the clock would call the backend dead. So a limit is counted in parts, and one
// at the end of which the process is behind does not count.
func newLimit(now time.Time, left time.Duration, ended func(*limit)) *limit {
	l := &limit{done: make(chan struct{}), shared: now.Add(left / 64)}
	due, last, kept := now, now.Add(maxStretch*left), 0
	var part func()
	part = func() {
		if lag(due) <= max(left/64, anyLag) {
			kept++
		} else {
			due = time.Now()
		}
		if kept < parts && time.Now().Before(last) {
			due = due.Add(left / parts)
			time.AfterFunc(time.Until(due), part)
			return
		}
		close(l.done)
		if ended != nil {
			ended(l)
		}
	}
	due = due.Add(left / parts)
	time.AfterFunc(left/parts, part)
	return l
}

const (
	// parts are enough to see that a process is behind, and few enough to cost nothing.
	parts = 16
	// anyLag is what every busy machine has, and is not worth a look at a short limit.
	anyLag = 20 * time.Millisecond
	// maxStretch is how many times its time a limit lasts at most: where the backend is dead
	// and the process is slow as well, callers still fail.
	maxStretch = 4
)

// lag returns by how much this process is behind: how long ago a timer was due that has fired
// now, and for how long a goroutine waits for a core. A variable for tests.
var lag = func(due time.Time) time.Duration {
	runtime.Gosched()
	return time.Since(due)
}

// patienceLocked is the limit of a caller who comes now.
func (g *Group[T]) patienceLocked() *limit {
	if g.cfg.Patience <= 0 {
		return nil
	}
	if now := time.Now(); g.patience == nil || !now.Before(g.patience.shared) {
		g.patience = newLimit(now, g.cfg.Patience, nil)
	}
	return g.patience
}

// timeoutLocked is the limit of a call that is sent now.
func (g *Group[T]) timeoutLocked(now time.Time) *limit {
	if g.timeout == nil || !now.Before(g.timeout.shared) {
		g.timeout = newLimit(now, g.cfg.Timeout, g.expire)
	}
	return g.timeout
}

// expire cancels the call in flight, if its time is over.
func (g *Group[T]) expire(l *limit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.flying; b != nil && b.limit == l {
		b.cancel(g.expired)
	}
}
