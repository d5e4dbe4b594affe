package decorator

import (
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// openWatches are the watches of a generation. When it is lost they are stopped, as a
// cache that is stopped does it: without a word. What their clients ask next tells them
// to list again (see resumption): a watch that ends with 410 by itself would cost a
// goroutine and a hand-over of each event, 40 % of a storm of watches.
type openWatches struct {
	mu    sync.Mutex
	open  map[*openWatch]struct{}
	ended bool
}

// add is the watch as it goes to the caller, who stops it.
func (o *openWatches) add(inner watch.Interface) watch.Interface {
	w := &openWatch{inner: inner, among: o}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		inner.Stop()
	} else {
		if o.open == nil {
			o.open = map[*openWatch]struct{}{}
		}
		o.open[w] = struct{}{}
	}
	return w
}

// end stops all watches, and those that are added from now on.
func (o *openWatches) end() {
	o.mu.Lock()
	open := o.open
	o.open, o.ended = nil, true
	o.mu.Unlock()
	for w := range open {
		w.inner.Stop()
	}
}

type openWatch struct {
	inner watch.Interface
	among *openWatches
}

// ResultChan is watch.Interface.
func (w *openWatch) ResultChan() <-chan watch.Event { return w.inner.ResultChan() }

// Stop is watch.Interface.
func (w *openWatch) Stop() {
	w.among.mu.Lock()
	delete(w.among.open, w)
	w.among.mu.Unlock()
	w.inner.Stop()
}

// resumption says from which revisions a watch may go on after a cache was lost.
type resumption struct {
	// base is where the present cache began, nowhere until there is one. A revision below may
	// be of the lost history, or lack what the lost cache lacked.
	base uint64
	// lost is the highest revision that the lost cache can have answered. Up to it the new
	// history may by now have the same numbers, so for a while, until all who were
	// connected have come back, none is taken.
	lost  uint64
	until time.Time
}

// nowhere is above all revisions.
const nowhere = math.MaxUint64

// comeBack is for how long clients come back whose watches were stopped: client-go's at
// once.
const comeBack = 2 * time.Second

func (r *resumption) allows(revision uint64) bool {
	return r == nil || revision >= r.base && (revision > r.lost || time.Now().After(r.until))
}

func errLostHistory() error {
	return apierrors.NewResourceExpired("rvfloor: this resourceVersion may be of a history that is lost; list again")
}
