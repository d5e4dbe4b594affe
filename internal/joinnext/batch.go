package joinnext

import (
	"context"
	"runtime/debug"
	"time"
)

// batch is the callers of one call.
type batch[T any] struct {
	// done is closed when the call is over. Then the next three stand.
	done   chan struct{}
	result Result[T]
	err    error
	next   *batch[T] // where a failed call's callers went; nil: nowhere

	// Guarded by Group.mu.
	callers  int // who wait for it
	firsts   int // of these, those that have not seen a call fail yet
	finished bool
	cancel   context.CancelCauseFunc // ends the call; nil until it is sent
}

// finishLocked ends the batch for its callers; the first to do so decides.
func (b *batch[T]) finishLocked(result Result[T], err error) {
	if b.finished {
		return
	}
	b.finished = true
	b.result, b.err = result, err
	close(b.done)
}

// send makes the calls, one after the other, until nobody has waited for a while.
func (g *Group[T]) send() {
	gone := false
	defer func() {
		if !gone {
			// run ended this goroutine (runtime.Goexit, as a test's FailNow
			// does). Those who wait for the next call need another.
			g.goroutines.Go(g.send)
		}
	}()
	for !gone {
		if b, ctx, call := g.takeOff(); b != nil {
			g.call(ctx, b, call)
		} else {
			gone = g.rest()
		}
	}
}

// rest waits until there is a batch again. It is true when none came.
func (g *Group[T]) rest() (gone bool) {
	if g.linger > 0 {
		over := time.NewTimer(g.linger)
		defer over.Stop()
		select {
		case _, open := <-g.wake:
			return !open
		case <-over.C:
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sender == senderBusy {
		<-g.wake // just now
		return g.closed
	}
	g.sender = senderGone
	return true
}

// takeOff swaps the batch that waits for none and only then lets it be sent:
// whoever arrives from now on joins the next. The order is the join rule.
func (g *Group[T]) takeOff() (*batch[T], context.Context, Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying, g.waiting = g.waiting, nil
	b := g.flying
	if b == nil {
		g.sender = senderRests
		return nil, nil, Call{}
	}
	// Nothing of the callers' contexts goes into the call's: it must not end
	// with one of them.
	ctx, cancel := context.WithCancelCause(context.Background())
	b.cancel = cancel
	call := Call{SentAt: time.Now(), Callers: b.callers}
	b.result.Call = call
	return b, ctx, call
}

// call makes the call of b and ends the batch.
func (g *Group[T]) call(ctx context.Context, b *batch[T], call Call) {
	defer b.cancel(nil)
	ctx, release := context.WithTimeoutCause(ctx, g.timeout, g.expired)
	defer release()

	result, err := Result[T]{Call: call}, errExited
	defer func() {
		// After a Goexit recover answers nil, and err stands.
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
		g.finish(b, result, err)
	}()
	result.Value, err = g.run(ctx, call)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // says more than run can know
	}
}

// finish ends the batch. Those whose first call failed are moved to the next
// batch as a whole, before it can be sent: were they left to join one by one,
// the first of them would set off a call that the others miss.
func (g *Group[T]) finish(b *batch[T], result Result[T], err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.finished {
		return // Close was first
	}
	if err != nil && b.firsts > 0 {
		b.next = g.nextLocked()
		b.next.callers += b.firsts
	}
	b.finishLocked(result, err)
}
