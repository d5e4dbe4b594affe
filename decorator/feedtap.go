package decorator

import (
	"context"
	"sync"
)

// tapped is what the progress.Watcher below the raw storage told of a watch.
type tapped struct {
	mu       sync.Mutex
	revision uint64         // newest announced
	many     map[uint64]int // events of the revisions that have more than one
	events   uint64         // announced so far
	progress uint64         // newest report taken
}

// Opened is progress.Tap. It comes again for each stream of the watch.
func (w *feedWatch) Opened(kick func(context.Context) error) {
	w.heard.Store(true)
	w.feed.wiring.mended(misfitUntapped)
	w.asked.Store(0)
	w.feed.standing.Store(false)
	if w.kick.Swap(&kick) != nil {
		w.feed.observe.reopened("reconnected")
	}
	w.feed.tapped.Store(true)
	w.feed.stream.Rebound()
	w.feed.backend.chooser.recovering()
}

// Called is progress.CallTap.
func (w *feedWatch) Called() { w.called.Store(true) }

// stray is true for a watch of an etcd that reports to nobody: it may be on a stream with
// others, where progress comes that is not of its events.
func (w *feedWatch) stray() bool { return w.called.Load() && !w.heard.Load() }

// Revision is progress.Tap: it comes before the raw storage sees the events.
func (w *feedWatch) Revision(revision uint64, events int) {
	w.asked.Store(0)
	w.tapped.mu.Lock()
	defer w.tapped.mu.Unlock()
	w.tapped.revision = revision
	w.tapped.events += uint64(events)
	if events > 1 {
		w.tapped.many[revision] = events
	}
}

// Progress is progress.Tap. It takes the report past the raw storage, which would
// hand it through half a dozen goroutines: when no event is on its way there, the
// cache is about to have all that the report is about.
func (w *feedWatch) Progress(revision uint64) (taken bool) {
	w.asked.Store(0)
	w.feed.replied(revision)
	w.tapped.mu.Lock()
	defer w.tapped.mu.Unlock()
	if !w.filled.Load() || w.received.Load() != w.tapped.events {
		return false
	}
	w.tapped.progress = revision
	select {
	case w.progressed <- struct{}{}:
	default:
	}
	return true
}

// Closed is progress.Tap.
func (w *feedWatch) Closed() { w.kick.Store(nil) }

// sizeOf is the number of events of a revision; 0 when nobody announced it.
func (w *feedWatch) sizeOf(revision uint64) int {
	w.tapped.mu.Lock()
	defer w.tapped.mu.Unlock()
	if revision > w.tapped.revision {
		return 0
	}
	if n := w.tapped.many[revision]; n > 0 {
		delete(w.tapped.many, revision)
		return n
	}
	return 1
}

// shortcut hands on the newest report that Progress took.
func (w *feedWatch) shortcut() bool {
	w.tapped.mu.Lock()
	revision := w.tapped.progress
	w.tapped.mu.Unlock()
	switch {
	case revision < w.at.revision:
		w.feed.observe.bookmarkDropped()
		return true
	case revision == w.at.whole:
		return true
	}
	return w.proved(newBookmark(w.feed.newItem, revision), revision)
}
