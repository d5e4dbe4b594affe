package decoratortest

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/watchlist"
)

// HoldableWatch is a storage whose watches can be held back. It stands between the
// raw storage and the Feed, or the cache where there is no Feed, and has HoldWatch
// and ReleaseWatch of a Harness.
type HoldableWatch struct {
	// Embedded, unlike anywhere else: what upstream adds to the interface is not to
	// be held.
	storage.Interface

	mu      sync.Mutex
	held    bool
	watches map[*heldWatch]struct{}
}

// NewHoldableWatch returns raw with watches that can be held back.
func NewHoldableWatch(raw storage.Interface) *HoldableWatch {
	return &HoldableWatch{Interface: raw, watches: map[*heldWatch]struct{}{}}
}

// HoldWatch keeps every item of every watch, until ReleaseWatch. None is delivered
// once it has returned.
func (h *HoldableWatch) HoldWatch() { h.hold(true) }

// ReleaseWatch lets watches deliver what was held, and what follows.
func (h *HoldableWatch) ReleaseWatch() { h.hold(false) }

func (h *HoldableWatch) hold(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
	for w := range h.watches {
		select {
		case w.holds <- held:
		case <-w.done:
			delete(h.watches, w)
		}
	}
}

// Watch is storage.Interface.
func (h *HoldableWatch) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	inner, err := h.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	w := &heldWatch{
		inner: inner, out: make(chan watch.Event), holds: make(chan bool),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches[w] = struct{}{}
	go w.run(h.held)
	return w, nil
}

// IsWatchListSemanticsUnSupported tells a reflector what the raw storage would.
func (h *HoldableWatch) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(h.Interface)
}

// heldWatch hands on the items of a watch, one at a time.
type heldWatch struct {
	inner watch.Interface
	out   chan watch.Event
	holds chan bool // taken by run, so that whoever sends knows that it has
	stop  chan struct{}
	halt  sync.Once
	done  chan struct{}
}

// ResultChan is watch.Interface.
func (w *heldWatch) ResultChan() <-chan watch.Event { return w.out }

// Stop is watch.Interface.
func (w *heldWatch) Stop() { w.halt.Do(func() { close(w.stop) }) }

func (w *heldWatch) run(held bool) {
	defer close(w.done)
	defer close(w.out)
	defer w.inner.Stop()
	var item *watch.Event
	ended := false
	for item != nil || !ended {
		in, out := w.inner.ResultChan(), w.out
		var next watch.Event
		if item != nil {
			in, next = nil, *item
		}
		if item == nil || held {
			out = nil
		}
		select {
		case event, ok := <-in:
			if ended = !ok; ok {
				item = &event
			}
		case out <- next:
			item = nil
		case held = <-w.holds:
		case <-w.stop:
			return
		}
	}
}
