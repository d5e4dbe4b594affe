package decorator

import (
	"context"
	"errors"
	"time"

	"github.com/rvfloor/rvfloor/internal/monotonic"
)

// request is StrategyRequest: it asks for progress on the cache's newest watch.
type request struct{ feed *Feed }

const (
	// untappedAfter is how long the watch of a cache may take to show a
	// progress.Watcher before a Feed takes the storage for one that has none.
	untappedAfter = 100 * time.Millisecond
	// muteAfter is how long a watch may leave kicks unanswered before floors are read on
	// its behalf: some answers are late on a busy machine, and readers wait meanwhile.
	muteAfter = 250 * time.Millisecond
	// requestTimeout bounds a request, which may block while the stream of a watch
	// reconnects.
	requestTimeout = time.Second
)

var (
	errNoWatch        = errors.New("decorator: the cache has no watch to ask for progress")
	errRequestTimeout = errors.New("decorator: the watch took no progress request in time")
)

// Advance is strategy's.
func (r request) Advance(ctx context.Context, _ uint64) error {
	err := r.send(ctx)
	r.feed.observe.kicked(err)
	return err
}

func (r request) send(ctx context.Context) error {
	f := r.feed
	f.mu.Lock()
	w := f.watch
	f.mu.Unlock()
	if w == nil || w.inner == nil {
		return errNoWatch
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errRequestTimeout)
	defer cancel()
	if kick := w.kick.Load(); kick != nil {
		err := (*kick)(ctx)
		if f.standing.Load() || w.mute() {
			_, _ = f.backend.floors.Next(ctx) // what it answers is of no interest
		}
		return err
	}
	if f.tapped.Load() || !w.filled.Load() || time.Since(w.opened) < untappedAfter {
		return errNoWatch // it is being opened; the stream kicks when it is
	}
	if w.stray() {
		// The storage may only just have come from its list to its watch.
		now := time.Now()
		if w.strayed.CompareAndSwap(nil, &now) || now.Sub(*w.strayed.Load()) < untappedAfter {
			return errNoWatch
		}
		f.misfits(misfitUntapped)
		if f.backend.Mode() == ModeVerify {
			return errNoWatch
		}
	}
	return f.raw.RequestWatchProgress(ctx)
}

// kickNow is Advance where nothing has to be waited for: the watch is open.
func (f *Feed) kickNow() bool {
	if !f.asks() || !f.mu.TryLock() {
		return false // the watch is being opened
	}
	w := f.watch
	f.mu.Unlock()
	if w == nil {
		return false
	}
	kick := w.kick.Load()
	if kick == nil || (*kick)(context.Background()) != nil {
		return false
	}
	f.observe.kicked(nil)
	return true
}

// mute says that a kick goes unanswered for long, as it does while etcd catches up
// for a watch, and for ever when the member that serves it is frozen. A source that
// reads from several members tells these apart by the reads that it is sent, and
// readers who wait for the watch send none.
func (w *feedWatch) mute() bool {
	return !w.asked.CompareAndSwap(0, monotonic.Now()) && w.asked.Load().Since() > muteAfter
}
