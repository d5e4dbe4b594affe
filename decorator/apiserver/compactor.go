package apiserver

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"
)

// compactor is the one compaction loop of a transport, shared by its resources. It runs while a resource holds it, at the
// smallest interval that was asked for since the first.
//
// It starts etcd3's compactor itself, not through etcd3.StartCompactorPerEndpoint: that one hands out a compactor that
// somebody else may own and stop (the storage factory's, for resources without a watch cache in the same process), and
// cannot say so. The price is a second loop in such a process, which does what the loop of a second API server does:
// loops agree through a key in etcd, and one of them compacts.
type compactor struct {
	client *clientv3.Client // not owned
	start  func(*clientv3.Client, time.Duration) runningCompactor

	mu       sync.Mutex
	running  runningCompactor // nil: stopped
	interval time.Duration
	refs     int
	reached  int64 // the newest revision a stopped loop knew of
}

// runningCompactor is what etcd3.NewCompactor answers. Stop waits for its goroutines.
type runningCompactor interface {
	etcd3.Compactor
	Stop()
}

func newCompactor(client *clientv3.Client) *compactor {
	return &compactor{client: client, start: startCompaction}
}

func startCompaction(client *clientv3.Client, interval time.Duration) runningCompactor {
	return etcd3.NewCompactor(client, interval, clock.RealClock{}, nil)
}

// acquire starts the loop, or replaces it by a faster one, and answers what etcd3.New takes and what gives it back (once:
// later calls do nothing). Interval 0 means that the API server shall not compact: both are then nil and harmless.
func (c *compactor) acquire(interval time.Duration) (etcd3.Compactor, func()) {
	if interval == 0 {
		return nil, func() {} // an untyped nil: etcd3 tests the interface
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refs++
	if c.running == nil || interval < c.interval {
		c.stopLocked()
		c.running, c.interval = c.start(c.client, interval), interval
	}
	return c, sync.OnceFunc(c.release)
}

func (c *compactor) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refs--
	if c.refs == 0 {
		c.stopLocked()
	}
}

func (c *compactor) stopLocked() {
	if c.running == nil {
		return
	}
	c.running.Stop()
	c.reached = max(c.reached, c.running.CompactRevision())
	c.running = nil
}

// CompactRevision implements etcd3.Compactor: the newest revision known to be compacted, 0 for none. It survives the
// change to a faster loop, which knows nothing at first.
func (c *compactor) CompactRevision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return c.reached
	}
	return max(c.reached, c.running.CompactRevision())
}
