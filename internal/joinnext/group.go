// Package joinnext shares one call among many callers by the join rule: a
// caller never joins a call that was already sent when it arrived, it joins
// the next one. What the call reads is therefore never older than the caller.
//
// That is what golang.org/x/sync/singleflight does not do: the call that it
// joins a caller to may have been answered before a write that the caller
// knows of.
package joinnext

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Call tells about one shared call.
type Call struct {
	// SentAt was read after the last caller had joined, just before the call
	// was sent. It carries the monotonic clock.
	SentAt time.Time
	// Callers is the number of callers that waited for the call when it was
	// sent, at least 1.
	Callers int

	traced *traced // nil: nobody is
}

// Companion is what goes along with a call.
type Companion interface {
	// Send is called once for each call, at the moment when the call is sent: that of
	// the first caller who has one, on any goroutine, and also when that caller's Do
	// has returned with the error of its context. It must not block.
	Send()
}

// Settler is a Companion that has something to wait for when the call of a crowd has
// been answered, before they are told: woken at once they would be in its way. Settle
// must return soon, as all wait for it, and with the end of ctx at the latest.
type Settler[T any] interface {
	Companion
	Settle(ctx context.Context, value T)
}

// crowd is how many callers are in the way of what Settle waits for: fewer are served
// in less time than it takes.
const crowd = 64

// Result is what a caller gets: the value of the call that it waited for, and
// which call that was. All callers of the call get the same one: by pointer, as what
// a caller keeps on its stack while it waits is paid for by thousands.
type Result[T any] struct {
	Value T
	Call
}

// Group runs one call at a time for any number of callers. While a call is in
// flight, those who arrive form one batch that waits; its call is sent when
// the one before has returned. So a caller waits for two calls at most, and
// the load of the callers never reaches the backend.
//
// No goroutine runs while nobody waits. A caller who comes alone may make the call
// on its own (see New): a new goroutine has to be scheduled twice, and to grow its
// stack through a client's deep calls, a tenth of a round trip to etcd.
//
// The same can be had from singleflight with a key that holds a generation,
// advanced by each call before it is sent. That form keeps the join rule, is a
// dozen lines long, and serves a caller with nobody beside it in less time (1.0
// against 1.3 us inline and 2.4 not: it has no context, deadline or batch of its
// own; a round trip to etcd takes 200 us).
// But nothing bounds its calls in flight: each that is sent opens the key for
// another, so a slow backend gets more of them, not fewer (10,000 callers: 285
// at once against 1, and 45 times as many calls for the same reads). Nobody
// counts its callers as they leave, so a call that nobody waits for any more
// runs on. A shared failure cannot be moved to the next call as a whole, a
// panic ends the process, and Close has nothing to wait for. What is shorter
// and quicker for one caller is the wrong one for the crowd that this package
// is for. (BenchmarkGroup and BenchmarkGeneration.)
type Group[T any] struct {
	run     func(context.Context, Call) (T, error)
	cfg     Config
	expired error // the cause of a call's deadline

	mu       sync.Mutex
	waiting  *batch[T] // not sent yet: joined by all who arrive
	flying   *batch[T] // sent: joined by nobody
	running  bool      // somebody sends, and looks for a batch when that is done
	patience *limit    // of the newest callers
	timeout  *limit    // of the newest calls
	closed   bool

	calls sync.WaitGroup // whoever sends
}

// Config says how a Group makes its calls.
type Config struct {
	// Timeout ends a call so long after it was sent, or at most 1/64 sooner, and no
	// later than Patience. Zero or less lets every call end before.
	Timeout time.Duration
	// Patience is the longest that a caller waits, and at most 1/64 less than that;
	// 0: as long as its context lets it. A crowd shares a timer for it, where a context
	// with a deadline would cost each of them a timer and 700 bytes.
	Patience time.Duration
	// Inline says that run returns at once when its context has ended, whatever
	// happens: then a caller who comes when nobody else does makes the call on its own
	// goroutine, with a context that is derived from its own.
	Inline bool
}

// New returns a Group whose calls are made by run, one at a time, each with a
// context of its own that ends after cfg.Timeout, when all its callers have gone, or
// with Close; context.Cause names which. Callers who have gone because the call took too
// long, by their patience or by a context with ErrTimeout as its cause, are no reason of
// their own: the cause is then ErrTimeout.
//
// run must return when its context has ended: a caller without an end of its own
// waits for that, and so do the next call and Close. A panic of run becomes a
// *PanicError for its callers. run must not call the Group.
func New[T any](run func(context.Context, Call) (T, error), cfg Config) *Group[T] {
	if cfg.Patience > 0 {
		cfg.Timeout = min(cfg.Timeout, cfg.Patience) // nobody waits longer
	}
	return &Group[T]{
		run:     run,
		cfg:     cfg,
		expired: fmt.Errorf("%w after %v", ErrTimeout, cfg.Timeout),
	}
}

// Do waits for a call that is sent after Do was called, and returns its result, which
// must not be changed.
//
// beside, where it is not nil, goes along with the call.
//
// The end of ctx frees this caller at once and nobody else; Do then returns
// the error of ctx, joined with its cause. When the call fails, the callers
// that waited for it all join the next one, once, and get what that returns:
// a failure may have been the bad luck of one call, and two are the backend's.
// Then they get the error of run as it is, a *PanicError, or one that wraps
// ErrTimeout, as also where the caller's patience ends. After Close it is ErrClosed.
func (g *Group[T]) Do(ctx context.Context, beside Companion) (*Result[T], error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	b, p, alone, err := g.join(ctx, beside)
	if err != nil {
		return nil, err
	}
	first := true
	switch {
	case alone && !g.cfg.Inline:
		go g.send()
	case alone:
		g.sendAlone(b)
		switch {
		case b.err == nil || b.next == nil && ctx.Err() == nil:
			return &b.result, b.err
		case ctx.Err() != nil:
			return nil, contextError(ctx)
		}
		if g.cfg.Patience > 0 {
			now := time.Now()
			p = newLimit(now, g.cfg.Patience-now.Sub(b.sent.SentAt), nil)
		}
		b, first = b.next, false
	}
	for ; ; first = false {
		select {
		case <-b.done:
		case <-ctx.Done():
			g.leave(b, first, abandonedBy(ctx))
			return nil, contextError(ctx)
		case <-p.over():
			g.leave(b, first, g.expired)
			return nil, fmt.Errorf("%w: the caller has waited %v", ErrTimeout, g.cfg.Patience)
		}
		if b.err == nil || b.next == nil || !first {
			return &b.result, b.err
		}
		b = b.next
	}
}

// Close lets every caller return ErrClosed, now and from now on, cancels the
// call in flight and waits until its goroutine has ended. It may be called
// more than once, and each call waits. It must not be called from run.
func (g *Group[T]) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		if b := g.waiting; b != nil {
			g.waiting = nil
			b.finishLocked(Result[T]{}, ErrClosed)
		}
		if b := g.flying; b != nil {
			b.finishLocked(Result[T]{Call: b.sent}, ErrClosed)
			b.cancel(ErrClosed)
		}
	}
	g.mu.Unlock()
	g.calls.Wait()
}

// join adds a caller to the batch that waits. alone tells that nobody sends, and
// that this caller is to see to it: with sendAlone of what join took off for it, or
// with send.
func (g *Group[T]) join(ctx context.Context, beside Companion) (b *batch[T], p *limit, alone bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, false, ErrClosed
	}
	alone = !g.running
	if alone {
		g.running = true
		g.calls.Add(1)
		if g.cfg.Inline {
			g.waiting = &batch[T]{callers: 1, firsts: 1, beside: beside}
			g.waiting.traceLocked(beside)
			return g.takeOffLocked(ctx), nil, true, nil
		}
	}
	b = g.nextLocked()
	b.callers++
	b.firsts++
	if b.beside == nil {
		b.beside = beside
	}
	b.traceLocked(beside)
	return b, g.patienceLocked(), alone, nil
}

// nextLocked returns the batch that waits, a new one where there is none.
func (g *Group[T]) nextLocked() *batch[T] {
	if g.waiting == nil {
		g.waiting = &batch[T]{done: make(chan struct{})}
	}
	return g.waiting
}

// leave takes a caller out whose time is over. first tells that b is the first batch
// that it waited for. The last to leave ends the call, and why is the cause of that.
func (g *Group[T]) leave(b *batch[T], first bool, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.finished && first && b.next != nil {
		// It was moved on before it noticed.
		b, first = b.next, false
	}
	if b.finished {
		return
	}
	b.callers--
	if first {
		b.firsts--
	}
	switch {
	case b.callers > 0:
	case b == g.waiting:
		g.waiting = nil // never sent
	default:
		b.cancel(why)
	}
}
