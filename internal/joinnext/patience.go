package joinnext

import "time"

// patience is how long callers wait who came within a 64th of it.
type patience struct {
	done   chan struct{} // closed when it ends
	shared time.Time     // who comes before shares it
}

// over is closed when the caller has waited long enough; nil: never.
func (p *patience) over() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.done
}

// patienceLocked is that of a caller who comes now.
func (g *Group[T]) patienceLocked() *patience {
	if p := g.patience; p != nil && time.Now().Before(p.shared) {
		return p
	}
	g.patience = g.patienceFor(g.cfg.Patience)
	return g.patience
}

func (g *Group[T]) patienceFor(left time.Duration) *patience {
	if g.cfg.Patience <= 0 {
		return nil
	}
	p := &patience{done: make(chan struct{}), shared: time.Now().Add(left / 64)}
	time.AfterFunc(left, func() { close(p.done) })
	return p
}
