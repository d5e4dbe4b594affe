package memstorage

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/progress"
)

// resultSize is how far a watch runs ahead of its reader, as in etcd3.
const resultSize = 100

// item is what a watch has to deliver: one of its fields.
type item struct {
	changes     []change // all of one revision that the watch covers
	initial     bool     // changes are of the state that the watch began with
	arrived     time.Time
	progress    uint64 // a bookmark
	endsInitial bool   // and the one that ends the initial events
	opens       bool   // what follows comes from the watch itself
	err         error  // ends the watch
}

// watcher is one watch. Items are queued under the lock of the Backend, in the
// order of their revisions, and delivered by a goroutine of its own.
type watcher struct {
	storage *Storage
	key     string // ends with a slash when it is a prefix
	pred    storage.SelectionPredicate
	stamped bool         // ListOptions.RecordTimestamps
	tap     progress.Tap // nil: none
	ctx     context.Context
	cancel  context.CancelFunc
	result  chan watch.Event
	wake    chan struct{} // has room for one: there is something new

	// Guarded by Backend.mu.
	from  uint64 // only later revisions are delivered
	items []item
	cut   int // events until the watch is cut; -1: never
}

func newWatcher(s *Storage, key string, opts storage.ListOptions) *watcher {
	return &watcher{
		storage: s,
		key:     key,
		pred:    opts.Predicate,
		stamped: opts.RecordTimestamps,
		result:  make(chan watch.Event, resultSize),
		wake:    make(chan struct{}, 1),
		cut:     -1,
	}
}

// ResultChan is watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop is watch.Interface.
func (w *watcher) Stop() { w.cancel() }

func (w *watcher) appendLocked(i item) {
	w.items = append(w.items, i)
	w.wakeLocked()
}

func (w *watcher) wakeLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) cutLocked(n int) {
	w.cut = n
	if n == 0 {
		w.cancel()
	}
}

// run delivers items until the watch ends.
func (w *watcher) run() {
	defer close(w.result)
	defer w.leave()
	opened := false
	for {
		i, ok := w.next()
		switch {
		case !ok:
		case i.opens:
			if opened = w.tap != nil; opened {
				w.tap.Opened(w.kick)
				defer w.tap.Closed()
			}
		case i.err != nil:
			if w.pass() {
				w.send(errorEvent(i.err))
			}
			return
		case i.progress != 0:
			ok = w.pass() && (opened && w.tap.Progress(i.progress) || w.send(w.bookmark(i)))
		default:
			ok = w.deliver(i, opened)
		}
		if !ok {
			return
		}
	}
}

// next takes an item from the queue. It is false when the watch has ended.
func (w *watcher) next() (item, bool) {
	for {
		if w.ctx.Err() != nil {
			return item{}, false
		}
		if i, ok := w.take(); ok {
			return i, true
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
		}
	}
}

func (w *watcher) take() (item, bool) {
	b := w.storage.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(w.items) == 0 {
		return item{}, false
	}
	i := w.items[0]
	w.items = w.items[1:]
	return i, true
}

// pass waits until the switches let one more item through. It is false when the
// watch has ended.
func (w *watcher) pass() bool {
	b, f := w.storage.backend, &w.storage.faults
	for {
		b.mu.Lock()
		allowed, changed := f.allowed, f.changed
		if allowed > 0 {
			f.allowed--
		}
		b.mu.Unlock()
		if allowed != 0 {
			return true
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return false
		}
	}
}

// deliver sends the events of one revision, announced to the tap when the first of
// them passes.
func (w *watcher) deliver(i item, announce bool) bool {
	for _, c := range i.changes {
		event, ok := w.event(c, i.initial)
		if !ok {
			continue
		}
		if !w.pass() {
			return false
		}
		if announce {
			w.tap.Revision(c.revision, len(i.changes))
			announce = false
		}
		if w.stamped && !i.initial {
			event.Object = &timed{Object: event.Object, at: i.arrived}
		}
		if !w.send(event) || w.ends() {
			return false
		}
	}
	return true
}

// ends counts one event, and is true when it was the last before a cut.
func (w *watcher) ends() bool {
	b := w.storage.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.cut > 0 {
		w.cut--
	}
	return w.cut == 0
}

func (w *watcher) send(event watch.Event) bool {
	select {
	case w.result <- event:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// event is what a change is to this watch; false: nothing.
func (w *watcher) event(c change, initial bool) (watch.Event, bool) {
	was, is := w.matches(c.previous), w.matches(c.object)
	switch {
	case is && !was:
		return watch.Event{Type: watch.Added, Object: c.object.DeepCopyObject()}, true
	case is:
		return watch.Event{Type: watch.Modified, Object: c.object.DeepCopyObject()}, true
	case was && !initial:
		// The object as it was, with the revision of the change.
		object := c.previous.DeepCopyObject()
		_ = versioner.UpdateObject(object, c.revision)
		return watch.Event{Type: watch.Deleted, Object: object}, true
	}
	return watch.Event{}, false
}

func (w *watcher) matches(object runtime.Object) bool {
	if object == nil {
		return false
	}
	if w.pred.Empty() {
		return true
	}
	matches, err := w.pred.Matches(object)
	return err == nil && matches
}

func (w *watcher) bookmark(i item) watch.Event {
	object := w.storage.cfg.New()
	err := versioner.UpdateObject(object, i.progress)
	if err == nil && i.endsInitial {
		err = storage.AnnotateInitialEventsEndBookmark(object)
	}
	if err != nil {
		return errorEvent(err)
	}
	if w.stamped {
		object = &timed{Object: object, at: time.Now()}
	}
	return watch.Event{Type: watch.Bookmark, Object: object}
}

var errEnded = errors.New("memstorage: the watch has ended")

// kick asks for progress on this watch alone.
func (w *watcher) kick(ctx context.Context) error {
	w.storage.calls.kicks.Add(1)
	if err := ctx.Err(); err != nil {
		return err
	}
	b := w.storage.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, open := b.watches[w]; !open {
		return errEnded
	}
	w.progressLocked()
	return nil
}

func (w *watcher) leave() {
	w.cancel()
	b := w.storage.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watches, w)
}

func errorEvent(err error) watch.Event {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	object := status.Status()
	return watch.Event{Type: watch.Error, Object: &object}
}

// timed is an object with the time at which its event arrived.
type timed struct {
	runtime.Object
	at time.Time
}

var _ storage.WatchEventWithRecordTime = (*timed)(nil)

// GetObjectMeta is that of the wrapped object.
func (t *timed) GetObjectMeta() metav1.Object {
	accessor, err := meta.Accessor(t.Object)
	if err != nil {
		return nil
	}
	return accessor
}

// DeepCopyObject copies the wrapped object.
func (t *timed) DeepCopyObject() runtime.Object {
	return &timed{Object: t.Object.DeepCopyObject(), at: t.at}
}

// RecordTime is when the event arrived.
func (t *timed) RecordTime() time.Time { return t.at }

// Unwrap is the object.
func (t *timed) Unwrap() runtime.Object { return t.Object }
