package etcdlab

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// WireStats counts what passed a [Wire]. Up is from the side that dialed to the
// side that was dialed.
type WireStats struct {
	// Accepted counts connections taken, Open those that are open now, and Refused
	// those that came while the wire was cut.
	Accepted, Open, Refused int64
	// UpBytes and DownBytes were delivered. UpWaiting and DownWaiting were read and are
	// not delivered yet: held, delayed, throttled, or on their way.
	UpBytes, DownBytes, UpWaiting, DownWaiting int64
}

// Wire is a set of connections that are disturbed together: those through one
// [Proxy], or those that carry what one member tells another ([Processes.Link]).
// Its methods may be called from any goroutine.
type Wire struct {
	wg sync.WaitGroup // the links; added to under mu, and only while not closed

	mu      sync.Mutex
	closed  bool
	cut     bool
	held    bool
	delay   time.Duration
	rate    int  // bytes per second, 0 for no bound
	setting bell // held, delay or rate changed
	links   map[*link]struct{}
	stats   WireStats
	moved   bell // stats changed
}

func newWire() *Wire { return &Wire{links: map[*link]struct{}{}} }

// Cut kills the open connections with a reset, with all that they still carried,
// and refuses new ones until Heal: those are accepted and reset at once, so that
// nobody can take the port meanwhile. When it returns, no connection is open.
func (w *Wire) Cut() {
	w.mu.Lock()
	w.cut = true
	links := slices.Collect(maps.Keys(w.links))
	w.mu.Unlock()
	for _, l := range links {
		l.kill()
	}
	for _, l := range links {
		<-l.done
	}
}

// Hold stalls both directions of all connections, new ones included, without
// closing any: even an end or a reset waits. When it returns, nothing more is
// delivered until Release or Heal.
func (w *Wire) Hold() {
	w.mu.Lock()
	w.held = true
	w.setting.ringLocked()
	links := slices.Collect(maps.Keys(w.links))
	w.mu.Unlock()
	for _, l := range links {
		l.up.settle()
		l.down.settle()
	}
}

// Release ends a Hold; what was held is delivered in order.
func (w *Wire) Release() { w.set(func() { w.held = false }) }

// Delay makes each byte arrive at least d after it was read, in either direction,
// in order; a round trip takes 2d longer. It is a latency, not a rate: bytes wait
// side by side. It also counts for what waits already; 0 ends it.
func (w *Wire) Delay(d time.Duration) { w.set(func() { w.delay = d }) }

// Throttle lets each direction of each connection carry at most so many bytes per
// second, in bursts of up to 32 KiB with the pause after them. It also counts for
// what waits already; 0 ends it.
func (w *Wire) Throttle(bytesPerSecond int) { w.set(func() { w.rate = bytesPerSecond }) }

// Heal ends Cut, Hold, Delay and Throttle.
func (w *Wire) Heal() { w.set(func() { w.cut, w.held, w.delay, w.rate = false, false, 0, 0 }) }

func (w *Wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	w.setting.ringLocked()
}

// Stats returns the counts, all of one moment.
func (w *Wire) Stats() WireStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Await waits until ok holds for the stats and returns them. The error is the
// cause of ctx's end, or [net.ErrClosed] when the wire was closed first.
func (w *Wire) Await(ctx context.Context, ok func(WireStats) bool) (WireStats, error) {
	var s WireStats
	err := await(ctx, &w.mu, &w.moved, func() (bool, error) {
		s = w.stats
		if ok(s) {
			return true, nil
		}
		if w.closed {
			return false, net.ErrClosed
		}
		return false, nil
	})
	return s, err
}

// close cuts all connections for good and returns when their goroutines have ended.
func (w *Wire) close() {
	w.mu.Lock()
	w.closed = true
	w.moved.ringLocked()
	w.mu.Unlock()
	w.Cut()
	w.wg.Wait()
}

// admit joins conn to what dial gives, or resets it.
func (w *Wire) admit(conn net.Conn, dial dialFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.moved.ringLocked()
	if w.cut || w.closed {
		w.stats.Refused++
		reset(conn)
		return
	}
	w.stats.Accepted++
	w.stats.Open++
	l := newLink(w, conn)
	w.links[l] = struct{}{}
	w.wg.Go(func() { l.run(dial) })
}

// forget takes a link off the books when it has ended.
func (w *Wire) forget(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.links, l)
	w.stats.Open--
	w.stats.UpWaiting -= l.up.waiting
	w.stats.DownWaiting -= l.down.waiting
	w.moved.ringLocked()
}
