package joinnext

import (
	"context"
	"errors"
	"fmt"

	"github.com/rvfloor/rvfloor/internal/guard"
)

var (
	// ErrClosed is what callers get from a Group that was closed.
	ErrClosed = errors.New("joinnext: closed")

	// ErrTimeout says that a shared call was not answered before its own
	// deadline. It wraps context.DeadlineExceeded; whether it was the caller's
	// own deadline instead is told by the caller's context.
	ErrTimeout = fmt.Errorf("joinnext: shared call not answered in time: %w", context.DeadlineExceeded)

	// ErrAbandoned is the cause of the context of a call whose callers have all
	// gone for reasons of their own. No caller sees it.
	ErrAbandoned = errors.New("joinnext: all callers have gone")

	errExited = errors.New("joinnext: the shared call ended its goroutine")
)

// PanicError is what the callers get from a shared call that panicked. The
// process goes on: one bad answer of a backend must not end it.
type PanicError = guard.PanicError

// contextError says how ctx ended: its error, and its cause where that says
// more, so that errors.Is finds both.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// abandonedBy returns the cause for a call whose last caller left with the end of ctx.
func abandonedBy(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrTimeout) {
		return cause
	}
	return ErrAbandoned
}
