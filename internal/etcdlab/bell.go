package etcdlab

import (
	"context"
	"sync"
)

// bell wakes all who wait for the next change of something. The lock of whatever
// changes guards it. It costs nothing while nobody waits.
type bell struct{ rung chan struct{} }

// ringLocked wakes the present waiters.
func (b *bell) ringLocked() {
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// nextLocked is closed by the next ring.
func (b *bell) nextLocked() <-chan struct{} {
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// await calls look, with mu held, now and after each ring, until it says done.
func await(ctx context.Context, mu *sync.Mutex, b *bell, look func() (done bool, err error)) error {
	for {
		mu.Lock()
		done, err := look()
		next := b.nextLocked()
		mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
