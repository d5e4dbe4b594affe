package memstorage

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Backend is one revision space with its history, in memory. NewBackend makes one.
type Backend struct {
	running sync.WaitGroup // goroutines of watches

	mu      sync.Mutex
	history history
	watches map[*watcher]struct{}
	closed  bool
}

var versioner = storage.APIObjectVersioner{}

// NewBackend returns an empty Backend at revision 1, as an empty etcd is.
func NewBackend() *Backend {
	return &Backend{history: newHistory(), watches: map[*watcher]struct{}{}}
}

// Revision is that of the newest write.
func (b *Backend) Revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.history.revision
}

// Bump moves the revision without changing any object, as a write to a resource
// that nobody here stores, and returns it. No watch hears of it.
func (b *Backend) Bump() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commitLocked(nil)
}

// Change is one part of a transaction.
type Change struct {
	key    string
	object runtime.Object // nil: the key is deleted
}

// Put stores a copy of object at key, whether or not the key exists.
func Put(key string, object runtime.Object) Change { return Change{key: key, object: object} }

// Delete removes key. The transaction fails where it does not exist.
func Delete(key string) Change { return Change{key: key} }

// Txn makes all changes at one revision, which it returns, or none. As in etcd, a
// transaction names a key once; an empty one moves nothing.
func (b *Backend) Txn(changes ...Change) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(changes) == 0 {
		return b.history.revision, nil
	}
	writes := make([]write, 0, len(changes))
	named := map[string]bool{}
	for _, c := range changes {
		if named[c.key] {
			return 0, fmt.Errorf("memstorage: the transaction names key %q twice", c.key)
		}
		named[c.key] = true
		w := write{key: c.key}
		if c.object != nil {
			var err error
			if w.object, err = prepared(c.object); err != nil {
				return 0, err
			}
		} else if b.history.newest(c.key).object == nil {
			return 0, storage.NewKeyNotFoundError(c.key, int64(b.history.revision))
		}
		writes = append(writes, w)
	}
	return b.commitLocked(writes), nil
}

// Compact forgets the history below revision: lists and watches from there get
// 410. It fails for a revision that does not exist yet.
func (b *Backend) Compact(revision uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.history.compact(revision)
}

// Restore takes the backend back to what it was at revision, as the restore of a
// snapshot does: what came later never was, the next write takes revision+1, and
// all watches end.
func (b *Backend) Restore(revision uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.history.restore(revision); err != nil {
		return err
	}
	for w := range b.watches {
		w.cancel()
	}
	return nil
}

// Close ends all watches and returns when their goroutines have ended. Later
// watches are refused. Idempotent.
func (b *Backend) Close() {
	b.mu.Lock()
	b.closed = true
	for w := range b.watches {
		w.cancel()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// commitLocked makes writes at one new revision and queues them on every watch
// that they concern. Both happen under the lock: so a watch is told of revisions
// in order, and progress that is queued later stands behind them.
func (b *Backend) commitLocked(writes []write) uint64 {
	changes := b.history.commit(writes)
	for w := range b.watches {
		w.queueLocked(changes)
	}
	return b.history.revision
}

var errClosed = errors.New("memstorage: the backend is closed")
