package joinnext

import (
	"context"
	"time"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// batch is the callers of one call.
type batch[T any] struct {
	// done is closed when the call is over, and nil for a caller alone. Then the next
	// three stand.
	done   chan struct{}
	result Result[T]
	err    error
	next   *batch[T] // where a failed call's callers went; nil: nowhere

	// Guarded by Group.mu.
	callers  int // who wait for it
	firsts   int // of these, those that have not seen a call fail yet
	finished bool
	beside   Companion               // may be nil
	ctx      context.Context         // of the call; nil until it is sent
	cancel   context.CancelCauseFunc // ends it
	limit    *limit                  // does so when the call has taken too long
	sent     Call                    // which it is; whole when it is sent
}

// finishLocked ends the batch for its callers; the first to do so decides.
func (b *batch[T]) finishLocked(result Result[T], err error) {
	if b.finished {
		return
	}
	b.finished = true
	b.result, b.err = result, err
	if b.done != nil {
		close(b.done)
	}
}

// send makes the calls, one after the other, until nobody waits.
func (g *Group[T]) send() {
	defer g.handOver()
	for {
		b := g.takeOff()
		if b == nil {
			return
		}
		g.call(b)
	}
}

// sendAlone makes the call of a caller who is alone, on its own goroutine.
func (g *Group[T]) sendAlone(b *batch[T]) {
	defer g.handOver()
	g.call(b)
}

// handOver ends the sending, or leaves it to a new goroutine where somebody waits:
// they came too late for this one, or run has ended it (runtime.Goexit, as a test's
// FailNow does).
func (g *Group[T]) handOver() {
	g.mu.Lock()
	g.running = g.waiting != nil
	more := g.running
	g.mu.Unlock()
	if more {
		go g.send()
	} else {
		g.calls.Done()
	}
}

func (g *Group[T]) takeOff() *batch[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.takeOffLocked(context.Background())
}

// takeOffLocked swaps the batch that waits for none and only then lets it be sent:
// whoever arrives from now on joins the next. The order is the join rule. The call
// of several must not end with the context of one of them: parent is then none of
// theirs.
func (g *Group[T]) takeOffLocked(parent context.Context) *batch[T] {
	b := g.waiting
	g.flying, g.waiting = b, nil
	if b == nil {
		return nil
	}
	b.ctx, b.cancel = context.WithCancelCause(parent)
	b.sent.SentAt, b.sent.Callers = time.Now(), b.callers
	b.limit = g.timeoutLocked(b.sent.SentAt)
	return b
}

// call makes the call of b and ends the batch.
func (g *Group[T]) call(b *batch[T]) {
	ctx := b.ctx
	defer b.cancel(nil)
	result, err := Result[T]{Call: b.sent}, errExited
	defer func() {
		// After a Goexit recover answers nil, and err stands.
		if value := recover(); value != nil {
			err = guard.Recovered(value)
		}
		g.finish(b, result, err)
	}()
	if b.beside != nil {
		b.beside.Send()
	}
	result.Value, err = g.run(ctx, b.sent)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // says more than run can know
	}
	if s, ok := b.beside.(Settler[T]); ok && err == nil && b.sent.Callers >= crowd {
		s.Settle(ctx, result.Value)
	}
}

// finish ends the batch. Those whose first call failed are moved to the next
// batch as a whole, before it can be sent: were they left to join one by one,
// the first of them would set off a call that the others miss.
func (g *Group[T]) finish(b *batch[T], result Result[T], err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying = nil // b has what its callers sent along, and they may be gone for good
	if b.finished {
		return // Close was first
	}
	if err != nil && b.firsts > 0 && (b.ctx.Err() == nil || context.Cause(b.ctx) == g.expired) {
		b.next = g.nextLocked()
		b.next.callers += b.firsts
		b.next.sent.moveTraced(b.sent)
	}
	b.finishLocked(result, err)
}
