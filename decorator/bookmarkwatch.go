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

// bookmarkWatch is a watch whose bookmarks never name a revision before its last event.
// Upstream's cacher sends them by the clock, at the revision of the event that it handed
// on last, which may be one of several of its revision. It tells nobody below or above
// when it will, and it fills its watches' channels itself, so a bookmark can only be
// changed on its way from one channel to another.
//
// That costs a goroutine and a hand-over of each event, so only watches that ask for
// bookmarks are wrapped, and events are not looked at while no revision was ever split.
type bookmarkWatch struct {
	inner watch.Interface
	store *Store
	out   chan watch.Event
	stop  chan struct{}
	halt  sync.Once
	// sent is the highest revision that went out since a revision was split; what went out
	// before is below all that are. Owned by run.
	sent uint64
}

// bookmarked returns w as it goes to a caller who asked for bookmarks. Its channel holds as
// many events as that of w: upstream's endpoint handler flushes whenever it is empty, which
// is most of what an event costs.
func (s *Store) bookmarked(ctx context.Context, w watch.Interface) watch.Interface {
	b := &bookmarkWatch{inner: w, store: s, out: make(chan watch.Event, cap(w.ResultChan())), stop: make(chan struct{})}
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
	err := guard.Call(func() error { b.pass(ctx); return nil })
	if err != nil {
		klog.ErrorS(err, "An event of a watch could not be handled; the watch ends", "resource", b.store.resource.GroupResource, "stack", guard.Stack(err))
		status := apierrors.NewInternalError(err).Status()
		b.send(ctx, watch.Event{Type: watch.Error, Object: &status})
		b.inner.Stop()
	}
}

// pass hands on all that the inner watch brings.
func (b *bookmarkWatch) pass(ctx context.Context) {
	for event := range b.inner.ResultChan() {
		if b.store.tears.last.Load() > 0 {
			if event = b.whole(event); event.Object == nil {
				continue
			}
		}
		if !b.send(ctx, event) {
			return
		}
	}
}

// send is false when nobody takes events any more.
func (b *bookmarkWatch) send(ctx context.Context, event watch.Event) bool {
	select {
	case b.out <- event:
		return true
	default:
	}
	select {
	case b.out <- event:
		return true
	case <-b.stop:
	case <-ctx.Done():
	}
	return false
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
