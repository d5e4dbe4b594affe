package decorator

import "sync"

// workers are goroutines that end before close returns. The zero value is ready for use.
type workers struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// begin is false after close: a WaitGroup must not be added to while it is waited for.
func (w *workers) begin(work func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Go(work)
	return true
}

// close returns when all have ended.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.running.Wait()
}
