// Package guard keeps code that is not ours from ending the process when it panics on
// a goroutine of ours, where no API server recovers it.
package guard

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic, as an error.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked
}

// Error names the value and shows the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Call calls f, and returns its error, or a *PanicError if it panicked.
func Call(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}
