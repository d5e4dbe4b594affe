package decorator

import "sync"

// fills tells who waits for a cache to become ready that a fill has ended.
type fills struct {
	mu   sync.Mutex
	wait chan struct{}
}

// next is closed when the next fill ends.
func (f *fills) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait == nil {
		f.wait = make(chan struct{})
	}
	return f.wait
}

func (f *fills) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wait != nil {
		close(f.wait)
		f.wait = nil
	}
}
