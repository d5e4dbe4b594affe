package freshness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// waiting is a Source that answers 5 once it is let go, or with what ended says when its
// context ends.
type waiting struct {
	let   chan struct{}
	ended func(context.Context) error
}

func (s *waiting) Read(ctx context.Context) (Reading, error) {
	select {
	case <-s.let:
		return Reading{Revision: 5}, nil
	case <-ctx.Done():
		return Reading{}, s.ended(ctx)
	}
}

// prompt is a Source that a lone caller reads on its own goroutine.
type prompt struct{ Source }

func (prompt) PromptRead() {}

// TestCanceledIsNoDoubt: that nobody waited for an answer says nothing of the connection,
// while an answer that did not come in time does, and so does an error that came first.
func TestCanceledIsNoDoubt(t *testing.T) {
	lost := errors.New("the connection was lost")
	contextError := func(ctx context.Context) error { return ctx.Err() }
	deadline := func(after time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, after)
		}
	}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	}
	for name, test := range map[string]struct {
		caller func(context.Context) (context.Context, context.CancelFunc)
		ended  func(context.Context) error
		doubt  bool
	}{
		"canceled":                   {canceled, contextError, false},
		"the caller's own deadline":  {deadline(time.Second), contextError, false},
		"an error that has a cause":  {canceled, context.Cause, false},
		"an error that wraps that":   {canceled, func(ctx context.Context) error { return fmt.Errorf("etcd: %w", ctx.Err()) }, false},
		"not answered in time":       {deadline(time.Minute), contextError, true},
		"an error of the connection": {canceled, func(context.Context) error { return lost }, true},
	} {
		for _, inline := range []bool{false, true} {
			for _, patience := range []time.Duration{0, 3 * time.Second} {
				t.Run(fmt.Sprintf("%s/inline %t/patience %v", name, inline, patience), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						source := &waiting{let: make(chan struct{}), ended: test.ended}
						var asked Source = source
						if inline {
							asked = prompt{source}
						}
						floors := newFloors(t, asked, Config{Timeout: 3 * time.Second, Patience: patience})
						ctx, cancel := test.caller(t.Context())
						defer cancel()
						if _, err := floors.Next(ctx); err == nil {
							t.Fatal("the source has answered")
						}
						synctest.Wait()
						if floors.Doubted() != test.doubt {
							t.Errorf("doubted: %t", floors.Doubted())
						}
						close(source.let)
						if _, err := floors.Next(t.Context()); err != nil || floors.Doubted() {
							t.Errorf("after a floor: %v, doubted %t", err, floors.Doubted())
						}
					})
				})
			}
		}
	}
}
