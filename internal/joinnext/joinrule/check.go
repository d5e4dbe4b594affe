// Package joinrule checks that whatever shares reads among callers keeps the
// join rule: no caller gets a read that was sent before it arrived. It is for
// tests.
package joinrule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// Read reads the backend's revision.
type Read func(ctx context.Context) (uint64, error)

// Check calls share twice, with a backend's read each time, and has callers
// read through what it returns. It returns an error when a caller got a
// revision below a write that was acknowledged before the caller began.
//
// It must run in a bubble of testing/synctest, whose clock its sleeps use.
func Check(share func(Read) Read) error {
	return errors.Join(oneWrite(share), manyWrites(share))
}

// oneWrite is the smallest case: the backend has answered a read, the answer
// is on its way, a write is acknowledged, a caller arrives.
func oneWrite(share func(Read) Read) error {
	var (
		revision atomic.Uint64
		calls    atomic.Int64
		arrived  = make(chan struct{})
		answer   = make(chan struct{})
	)
	revision.Store(1)
	shared := share(func(context.Context) (uint64, error) {
		read := revision.Load()
		if calls.Add(1) == 1 {
			close(arrived)
			<-answer
		}
		return read, nil
	})

	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = shared(ctx) })
	<-arrived

	written := revision.Add(1)
	var (
		got uint64
		err error
	)
	wg.Go(func() { got, err = shared(ctx) })
	synctest.Wait() // the caller waits, for whatever it was joined to
	close(answer)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("joinrule: %w", err)
	}
	if got < written {
		return fmt.Errorf("joinrule: a caller that arrived after the write of revision %d was acknowledged got %d", written, got)
	}
	return nil
}

// manyWrites meets the cases that nobody thought of.
func manyWrites(share func(Read) Read) error {
	const callers, rounds = 64, 40
	pause := func(most time.Duration) { time.Sleep(rand.N(most)) }

	var revision atomic.Uint64
	shared := share(func(context.Context) (uint64, error) {
		pause(time.Millisecond) // on the way
		read := revision.Load()
		pause(time.Millisecond) // on the way back
		return read, nil
	})

	ctx, stop := context.WithCancel(context.Background())
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			revision.Add(1)
			pause(200 * time.Microsecond)
		}
	})
	breaches := make(chan error, callers)
	for range callers {
		readers.Go(func() {
			for range rounds {
				pause(2 * time.Millisecond)
				acknowledged := revision.Load()
				got, err := shared(ctx)
				if err != nil {
					breaches <- fmt.Errorf("joinrule: %w", err)
					return
				}
				if got < acknowledged {
					breaches <- fmt.Errorf("joinrule: a caller that arrived after revision %d got %d", acknowledged, got)
					return
				}
			}
		})
	}
	readers.Wait()
	stop()
	writer.Wait()
	select {
	case err := <-breaches:
		return err
	default:
		return nil
	}
}
