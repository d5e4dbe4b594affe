// Package gate holds back, in tests, what would be sent.
package gate

import (
	"context"
	"sync"
)

// Gate is what each message goes through before it is sent. The zero Gate is open. Its
// methods may be called from any goroutine.
type Gate struct {
	mu   sync.Mutex
	held chan struct{} // closed by Release; nil while the gate is open
}

// Hold holds back, until Release, what comes from now on. It may be called again.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(chan struct{})
	}
}

// Release lets go what was held. It may be called when nothing is held.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
		g.held = nil
	}
}

// Pass returns when nothing is held, or the cause of ctx's end.
func (g *Gate) Pass(ctx context.Context) error {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
