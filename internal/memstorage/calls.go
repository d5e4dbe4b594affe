package memstorage

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/apiserver/pkg/storage"
)

// Calls is how often each method of a Storage was called.
type Calls struct {
	Create, Delete, Update, Get, List, Watch int64
	// Revision is GetCurrentResourceVersion, Progress is RequestWatchProgress, and
	// Kicks are progress requests that came through a progress.Tap.
	Revision, Progress, Kicks int64
	Stats, Ready, Compact     int64
}

type counters struct {
	create, remove, update, get, list, watch atomic.Int64
	revision, progress, kicks                atomic.Int64
	stats, ready, compact                    atomic.Int64
}

// Calls counts the calls until now.
func (s *Storage) Calls() Calls {
	c := &s.calls
	return Calls{
		Create: c.create.Load(), Delete: c.remove.Load(), Update: c.update.Load(),
		Get: c.get.Load(), List: c.list.Load(), Watch: c.watch.Load(),
		Revision: c.revision.Load(), Progress: c.progress.Load(), Kicks: c.kicks.Load(),
		Stats: c.stats.Load(), Ready: c.ready.Load(), Compact: c.compact.Load(),
	}
}

// GetCurrentResourceVersion is storage.Interface: a linearizable read. See
// OnRevision.
func (s *Storage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	s.calls.revision.Add(1)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.backend.mu.Lock()
	answer, revision := s.faults.revision, s.backend.history.revision
	s.backend.mu.Unlock()
	if answer != nil {
		return answer(ctx, revision)
	}
	return revision, nil
}

// Stats counts the objects.
func (s *Storage) Stats(ctx context.Context) (storage.Stats, error) {
	s.calls.stats.Add(1)
	if err := ctx.Err(); err != nil {
		return storage.Stats{}, err
	}
	prefix, err := storage.PrepareKey(s.cfg.Prefix, s.cfg.Prefix, true)
	if err != nil {
		return storage.Stats{}, err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	return storage.Stats{ObjectCount: int64(len(b.history.under(prefix, "", b.history.revision)))}, nil
}

// ReadinessCheck is always nil, as etcd3's.
func (s *Storage) ReadinessCheck() error {
	s.calls.ready.Add(1)
	return nil
}

// EnableResourceSizeEstimation takes a KeysFunc once, as etcd3's store does, and
// does not call it.
func (s *Storage) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	s.sizes.Lock()
	defer s.sizes.Unlock()
	switch {
	case keys == nil:
		return errors.New("memstorage: the KeysFunc is nil")
	case s.keys != nil:
		return errors.New("memstorage: the estimation of sizes is enabled already")
	}
	s.keys = keys
	return nil
}

// Keys calls the KeysFunc that EnableResourceSizeEstimation was given.
func (s *Storage) Keys(ctx context.Context) ([]string, error) {
	s.sizes.Lock()
	keys := s.keys
	s.sizes.Unlock()
	if keys == nil {
		return nil, errors.New("memstorage: no estimation of sizes was enabled")
	}
	return keys(ctx)
}

// CompactRevision is the revision that was compacted; 0 before the first time.
func (s *Storage) CompactRevision() int64 {
	s.calls.compact.Add(1)
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	return int64(s.backend.history.compacted)
}
