package joinnext

import "time"

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

// newLimit ends after left, and then calls ended, which may be nil.
func newLimit(now time.Time, left time.Duration, ended func(*limit)) *limit {
	l := &limit{done: make(chan struct{}), shared: now.Add(left / 64)}
	time.AfterFunc(left, func() {
		close(l.done)
		if ended != nil {
			ended(l)
		}
	})
	return l
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
