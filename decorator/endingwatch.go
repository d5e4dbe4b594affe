package decorator

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// endingWatch is a watch that ends with 410 when its generation is lost. A cache that is
// stopped closes its watches without a word, and a client that then goes on from its
// last revision would keep what it had of the lost history.
type endingWatch struct {
	inner watch.Interface
	out   chan watch.Event
	stop  chan struct{}
	halt  sync.Once
	over  <-chan struct{} // the Healing was closed: who has not stopped may never read
}

// endingWith wraps a watch of g, which it leaves when the watch has ended.
func endingWith(inner watch.Interface, g *generation, over <-chan struct{}) watch.Interface {
	w := &endingWatch{inner: inner, out: make(chan watch.Event, cap(inner.ResultChan())), stop: make(chan struct{}), over: over}
	go w.run(g)
	return w
}

// ResultChan is watch.Interface.
func (w *endingWatch) ResultChan() <-chan watch.Event { return w.out }

// Stop is watch.Interface. As with a cache's watch, what is on its way is still delivered,
// as far as it has room.
func (w *endingWatch) Stop() {
	w.halt.Do(func() {
		w.inner.Stop()
		close(w.stop)
	})
}

func (w *endingWatch) run(g *generation) {
	defer close(w.out)
	lost := w.pass(g.lost)
	w.inner.Stop()
	g.leave()
	if lost {
		w.send(expired(), nil)
	}
}

// pass hands events on until the inner watch is over, or lost is closed, which it tells.
func (w *endingWatch) pass(lost <-chan struct{}) bool {
	for {
		select {
		case event, ok := <-w.inner.ResultChan():
			if !ok {
				return false
			}
			if !w.send(event, lost) {
				return true
			}
		case <-lost:
			return true
		}
	}
}

// send is false when lost was closed first.
func (w *endingWatch) send(event watch.Event, lost <-chan struct{}) bool {
	select {
	case w.out <- event:
		return true
	case <-lost:
		return false
	case <-w.stop:
	case <-w.over:
	}
	select {
	case w.out <- event:
	default: // nobody reads
	}
	return true
}

func expired() watch.Event {
	status := apierrors.NewResourceExpired("rvfloor: the history that this watch was of is lost; list again").Status()
	return watch.Event{Type: watch.Error, Object: &status}
}
