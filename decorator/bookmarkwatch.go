package decorator

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// bookmarkWatch is a watch whose bookmarks name no revision of which more may come.
// Upstream's cacher sends them by the clock, at the revision of the event that it handed
// on last, which may be one of several of its revision.
//
// It costs a goroutine and a hand-over of each event, so only watches that ask for
// bookmarks are wrapped.
type bookmarkWatch struct {
	inner watch.Interface
	store *Store
	out   chan watch.Event
	stop  chan struct{}
	halt  sync.Once
	sent  uint64 // the highest revision that went out; owned by run
}

// bookmarked is w as it goes to a caller who asked for bookmarks.
func (s *Store) bookmarked(ctx context.Context, w watch.Interface) watch.Interface {
	b := &bookmarkWatch{inner: w, store: s, out: make(chan watch.Event), stop: make(chan struct{})}
	go b.run(ctx)
	return b
}

// ResultChan is watch.Interface.
func (b *bookmarkWatch) ResultChan() <-chan watch.Event { return b.out }

// Stop is watch.Interface.
func (b *bookmarkWatch) Stop() {
	b.halt.Do(func() { close(b.stop) })
	b.inner.Stop()
}

// run ends with the inner watch, which ends with ctx.
func (b *bookmarkWatch) run(ctx context.Context) {
	defer close(b.out)
	for event := range b.inner.ResultChan() {
		err := guard.Call(func() error { event = b.whole(event); return nil })
		if err != nil {
			klog.ErrorS(err, "An event of a watch could not be handled; the watch ends", "resource", b.store.resource.GroupResource, "stack", guard.Stack(err))
			status := apierrors.NewInternalError(err).Status()
			event = watch.Event{Type: watch.Error, Object: &status}
		}
		if event.Object == nil {
			continue
		}
		select {
		case b.out <- event:
		case <-b.stop:
			return
		case <-ctx.Done():
			return
		}
		if err != nil {
			b.inner.Stop()
			return
		}
	}
}

// whole is the event as it goes out; without an object: not at all. Of a bookmark at a
// revision of which more may come, it is one at the revision before, unless that would
// go back.
func (b *bookmarkWatch) whole(event watch.Event) watch.Event {
	if event.Type == watch.Error {
		return event
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return event // the caller says what is wrong with it
	}
	versioner := b.store.router.versioner
	revision, err := versioner.ParseResourceVersion(object.GetResourceVersion())
	if err != nil {
		return event
	}
	// The one that ends the initial events is of a watch that was opened between two
	// revisions.
	if event.Type == watch.Bookmark && !endsInitialEvents(object) && b.store.tears.suspect(revision) {
		revision--
		if revision == 0 || revision < b.sent {
			return watch.Event{}
		}
		event.Object = event.Object.DeepCopyObject()
		if err := versioner.UpdateObject(event.Object, revision); err != nil {
			return watch.Event{}
		}
	}
	b.sent = max(b.sent, revision)
	return event
}
