package decoratortest

import (
	"sync"
	"sync/atomic"
)

// pacedWriter writes an object again and again beside readers: once more for each
// read that begins, so that no writer outruns the cache for good.
type pacedWriter struct {
	newest atomic.Pointer[write] // acknowledged
	pace   chan struct{}
	done   sync.WaitGroup
}

func (r *rig) beginWriting(w write) *pacedWriter {
	p := &pacedWriter{pace: make(chan struct{}, 1)}
	p.newest.Store(&w)
	p.done.Go(func() {
		for range p.pace {
			next, err := r.update(r.Writer(), w)
			if err != nil {
				r.t.Errorf("through Writer: %v", err)
				return
			}
			w = next
			p.newest.Store(&next)
		}
	})
	return p
}

// acknowledged is what a read that begins now must show.
func (p *pacedWriter) acknowledged() write {
	select {
	case p.pace <- struct{}{}:
	default:
	}
	return *p.newest.Load()
}

// end must come after the last read.
func (p *pacedWriter) end() {
	close(p.pace)
	p.done.Wait()
}
