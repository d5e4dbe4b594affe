package memstorage

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rvfloor/rvfloor/progress"
)

// Watch is storage.Interface. From a revision that does not exist yet it drops the
// events up to there, as etcd3's does.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s.calls.watch.Add(1)
	key, err := storage.PrepareKey(s.cfg.Prefix, key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	from, err := versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.WatchList) {
		opts.SendInitialEvents = nil
	}
	w := newWatcher(s, key, opts)
	w.ctx, w.cancel = context.WithCancel(ctx)
	if tap, ok := progress.TapFrom(ctx); ok && s.cfg.Tapped {
		w.tap = tap
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		w.cancel()
		return nil, errClosed
	}
	w.fillLocked(from, opts)
	b.watches[w] = struct{}{}
	b.running.Go(w.run)
	return w, nil
}

// fillLocked queues what a watch begins with: the state, then what came after from.
func (w *watcher) fillLocked(from uint64, opts storage.ListOptions) {
	h := &w.storage.backend.history
	asked := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	legacy := opts.SendInitialEvents == nil && from == 0
	switch {
	case asked && from > h.revision:
		w.appendLocked(item{err: storage.NewTooLargeResourceVersionError(from, h.revision, 1)})
		return
	case asked || legacy:
		for _, e := range w.stateLocked() {
			w.appendLocked(item{initial: true, changes: []change{{key: e.key, object: e.object}}})
		}
		if asked && opts.Predicate.AllowWatchBookmarks {
			w.appendLocked(item{progress: h.revision, endsInitial: true})
		}
		from = h.revision
	case from == 0:
		from = h.revision
	}
	w.from = from
	// An event is told with the state before it, which is gone for the first one
	// that was kept.
	if from < h.compacted {
		w.appendLocked(item{err: apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")})
		return
	}
	w.appendLocked(item{opens: true})
	for _, changes := range h.since(from) {
		w.queueLocked(changes)
	}
}

func (w *watcher) stateLocked() []entry {
	h := &w.storage.backend.history
	if strings.HasSuffix(w.key, "/") {
		return h.under(w.key, "", h.revision)
	}
	if v := h.newest(w.key); v.object != nil {
		return []entry{{w.key, v.object}}
	}
	return nil
}

// queueLocked queues the part of one revision that the watch covers.
func (w *watcher) queueLocked(changes []change) {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool {
		covered := c.key == w.key || strings.HasSuffix(w.key, "/") && strings.HasPrefix(c.key, w.key)
		return !covered || c.revision <= w.from
	})
	if len(changes) > 0 {
		w.appendLocked(item{changes: changes, arrived: time.Now()})
	}
}

// RequestWatchProgress makes every watch of this Storage deliver a bookmark behind
// what is queued.
func (s *Storage) RequestWatchProgress(ctx context.Context) error {
	s.calls.progress.Add(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.watches {
		if w.storage == s {
			w.progressLocked()
		}
	}
	return nil
}

// progressLocked queues the answer to a progress request.
func (w *watcher) progressLocked() {
	f := &w.storage.faults
	if f.dropped {
		return
	}
	answer := item{progress: w.storage.backend.history.revision}
	if f.frozen != 0 {
		answer.progress = min(answer.progress, f.frozen)
	}
	if f.overtakes {
		w.items = slices.Insert(w.items, 0, answer)
		w.wakeLocked()
		return
	}
	w.appendLocked(answer)
}
