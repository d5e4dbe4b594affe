package decorator

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/guard"
	"github.com/rvfloor/rvfloor/internal/monotonic"
)

// delivery is how far a watch has brought the cache.
type delivery struct {
	revision uint64 // of the newest event or bookmark that the cache took
	whole    uint64 // the cache took every event at or below it
	// Of a revision above whole:
	seen int           // events that the raw watch brought
	took []watch.Event // those that the cache took, where there may be several
}

// errNoRevision ends a fill. A Cacher that is filled at revision 0 never starts to hand
// out events, and then cannot be stopped (k8s.io/apiserver v0.37).
var errNoRevision = errors.New("rvfloor: the storage answered without a revision; no cache can be filled from it")

type phase uint8

const (
	// phaseSteady: events come in the order of their revisions.
	phaseSteady phase = iota
	// phaseFill: initial events come in the order of their keys, and a bookmark
	// ends them. Nothing is dropped, added or proved.
	phaseFill
	// phaseUnknown: a legacy watch from "now" fills the cache without saying when it
	// has. A bookmark is the first proof.
	phaseUnknown
)

// feedWatch is one watch of the cache. It hands items over an unbuffered channel
// to a reflector that handles them one by one: when the next item is taken, the
// one before has been applied. So where nothing follows, an echo does: a bookmark
// at the revision that was just delivered.
type feedWatch struct {
	feed   *Feed
	inner  watch.Interface
	ctx    context.Context // ends with the cache's, or with the watch
	cancel context.CancelFunc
	opened time.Time
	out    chan watch.Event
	stop   chan struct{}
	halt   sync.Once
	done   chan struct{}
	filled atomic.Bool // the phase is steady

	received atomic.Uint64 // events of that phase

	// Set by the progress.Watcher: see feedtap.go.
	kick       atomic.Pointer[func(context.Context) error]
	tapped     tapped
	progressed chan struct{}
	claims     chan claim
	called     atomic.Bool               // its context went into a gRPC call
	heard      atomic.Bool               // Opened was called
	strayed    atomic.Pointer[time.Time] // when a kick first met stray; nil: none has
	asked      monotonic.Atomic          // the first kick since anything came; 0: none

	// Owned by run, and by Feed.Watch after done.
	phase   phase
	at      delivery
	size    int    // events of at.revision; 0: not known
	pending uint64 // whole once the cache takes another item; 0: nothing to prove
	repeats repeats
	objects objects
	passed  passed
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newFeedWatch(f *Feed) *feedWatch {
	w := &feedWatch{
		feed: f, out: make(chan watch.Event), stop: make(chan struct{}), done: make(chan struct{}),
		progressed: make(chan struct{}, 1), claims: make(chan claim),
	}
	w.tapped.many = map[uint64]int{}
	return w
}

// open is true as long as nobody has ended the watch, as a cache does before it opens another.
func (w *feedWatch) open() bool {
	select {
	case <-w.done:
		return false
	case <-w.stop:
		return false
	default:
		return w.ctx.Err() == nil
	}
}

// ResultChan is watch.Interface.
func (w *feedWatch) ResultChan() <-chan watch.Event { return w.out }

// Stop is watch.Interface.
func (w *feedWatch) Stop() {
	w.halt.Do(func() {
		if w.stop != nil {
			close(w.stop)
		}
	})
}

func (w *feedWatch) run() {
	w.filled.Store(w.phase == phaseSteady)
	defer close(w.done)
	defer close(w.out)
	defer w.inner.Stop()
	defer w.cancel()
	for {
		var out chan<- watch.Event
		var echo watch.Event
		if w.pending != 0 {
			out, echo = w.out, newBookmark(w.feed.newItem, w.pending)
		}
		select {
		case <-w.stop:
			return
		case <-w.feed.quiet:
			<-w.stop
			return
		case out <- echo:
			w.applied()
		case <-w.progressed:
			if !w.shortcut() {
				return
			}
		case claim := <-w.claims:
			if !w.proof(claim) {
				return
			}
		case event, ok := <-w.inner.ResultChan():
			if !ok || !w.guarded(event) {
				return
			}
		}
	}
}

// applied is called when the cache took an item: what came before it is applied.
func (w *feedWatch) applied() {
	if w.pending != 0 {
		w.feed.applied(w.pending)
		w.pending = 0
	}
}

// send hands one item to the cache. It is false when the cache stopped the watch.
func (w *feedWatch) send(event watch.Event) bool {
	select {
	case w.out <- event:
		w.applied()
		return true
	case <-w.feed.quiet:
		<-w.stop
		return false
	case <-w.stop:
		return false
	}
}

// guarded is handle, and ends the watch where a storage's Versioner or an object panics,
// so that the cache fills anew.
func (w *feedWatch) guarded(event watch.Event) (more bool) {
	err := guard.Call(func() error {
		more = w.handle(event)
		return nil
	})
	if err != nil {
		klog.ErrorS(err, "An event of a watch could not be handled; its cache fills anew", "resource", w.feed.resource.GroupResource, "stack", guard.Stack(err))
		status := apierrors.NewInternalError(err).Status()
		w.send(watch.Event{Type: watch.Error, Object: &status})
		return false
	}
	return more
}

// handle passes one item on. It is false when the watch is over.
func (w *feedWatch) handle(event watch.Event) bool {
	if event.Type == watch.Error {
		if w.phase != phaseSteady {
			w.feed.fillFailedBy(event)
		}
		return w.send(event)
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return w.send(event) // the reflector says what is wrong with it
	}
	revision, err := w.feed.raw.Versioner().ParseResourceVersion(object.GetResourceVersion())
	if err != nil {
		return w.send(event)
	}
	if revision == 0 {
		status := apierrors.NewInternalError(errNoRevision).Status()
		w.send(watch.Event{Type: watch.Error, Object: &status})
		return false
	}
	switch {
	case event.Type == watch.Bookmark:
		return w.bookmark(event, object, revision)
	case w.phase != phaseSteady && w.feed.backend.hides(object):
		return true
	case w.phase != phaseSteady:
		w.objects.took(event)
		return w.send(event)
	default:
		return w.event(event, object, revision)
	}
}

func (w *feedWatch) bookmark(event watch.Event, object metav1.Object, revision uint64) bool {
	if w.phase != phaseFill && w.stray() {
		w.feed.misfits(misfitUntapped)
		if w.feed.backend.Mode() == ModeVerify {
			return true
		}
		return w.send(event)
	}
	switch w.phase {
	case phaseFill:
		if !endsInitialEvents(object) {
			return w.send(event)
		}
		w.steady()
	case phaseUnknown:
		w.steady()
	default:
		if w.kick.Load() == nil { // else Progress told it
			w.feed.replied(revision)
		}
		if revision < w.at.revision {
			// The cache would go back to it.
			w.feed.observe.bookmarkDropped()
			return true
		}
		if revision == w.at.whole {
			return true // known; the echo proves it, where it has not yet
		}
	}
	return w.proved(event, revision)
}

// steady begins the phase: the cache has been filled.
func (w *feedWatch) steady() {
	w.phase, w.objects.known = phaseSteady, true
	w.filled.Store(true)
}

// proved hands on a bookmark that proves its revision.
func (w *feedWatch) proved(bookmark watch.Event, revision uint64) bool {
	if !w.send(bookmark) {
		return false
	}
	w.at = delivery{revision: revision, whole: revision}
	w.pending = revision
	return true
}

func (w *feedWatch) event(event watch.Event, object metav1.Object, revision uint64) bool {
	w.received.Add(1)
	hidden := w.feed.backend.hides(object)
	switch {
	case w.passed.covers(revision):
		w.sizeOf(revision) // nobody will ask again
		w.feed.gaps.late(revision)
		return w.passed.pass(event, w.feed.resource.identity(event.Object, object)) || w.disproved(revision)
	case len(w.passed.here) > 0:
		return w.disproved(revision)
	case revision <= w.at.whole:
		return w.overtaken(revision)
	}
	if w.passed.upTo != 0 {
		w.feed.gaps.settle(w.passed.after)
		w.passed = passed{}
	}
	if revision > w.at.revision || w.at.seen == 0 {
		w.size = w.sizeOf(revision)
		if hidden && event.Type != watch.Deleted {
			w.size = 1 // it is written alone
		}
		if revision > w.at.revision && !w.begins(revision) {
			return false
		}
		if w.size != 1 {
			w.feed.tears.begin(revision)
		}
	}
	w.at.seen++
	if !hidden && !w.repeats.strike(event, object) {
		if !w.send(event) {
			return false
		}
		w.objects.took(event)
		if w.size != 1 {
			w.at.took = append(w.at.took, event)
		}
	}
	if w.at.seen == w.size {
		if hidden {
			return w.proved(newBookmark(w.feed.newItem, revision), revision)
		}
		w.at = delivery{revision: revision, whole: revision}
		w.pending = revision
	}
	return true
}

// begins is called before the first event of a revision, which proves those below.
// The cache may answer for them when it has also reached their number: until the
// event is applied it answers under that of the item before.
func (w *feedWatch) begins(revision uint64) bool {
	below := revision - 1
	switch {
	case below == w.at.revision:
		if below > w.at.whole {
			w.pending = below
		}
	case w.size != 1: // else the echo comes right after the event
		if !w.proved(newBookmark(w.feed.newItem, below), below) {
			return false
		}
	}
	w.at, w.repeats = delivery{revision: revision, whole: below}, repeats{}
	return true
}

// overtaken ends a watch on which progress came before the events below it, so
// that the cache fills anew: it has answered for a revision that it did not have.
func (w *feedWatch) overtaken(revision uint64) bool {
	w.feed.observe.overtaken(revision, w.at.whole)
	w.feed.backend.chooser.found(func(p *Properties) { p.ProgressOrdered = VerdictNo })
	status := apierrors.NewResourceExpired("rvfloor: the watch brought revision " + formatRevision(revision) +
		" after it had reported " + formatRevision(w.at.whole) + " complete").Status()
	w.send(watch.Event{Type: watch.Error, Object: &status})
	return false
}

func formatRevision(revision uint64) string { return strconv.FormatUint(revision, 10) }

func trimSlash(key string) string { return strings.TrimSuffix(key, "/") }
