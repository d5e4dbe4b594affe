// Package guard keeps code that is not ours from ending the process when it panics on
// a goroutine of ours, where no API server recovers it.
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

var count atomic.Uint64

// Count is how many panics became errors since the process began.
func Count() uint64 { return count.Load() }

// PanicError is a panic, as an error. Its text goes to clients, its stack must not: see
// Stack.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked
}

// Error names the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Stack is that of the panic that err comes from, for a log; empty where it is none.
func Stack(err error) string {
	if panicked, ok := errors.AsType[*PanicError](err); ok {
		return string(panicked.Stack)
	}
	return ""
}

// Recovered makes an error of what recover returned, on the goroutine that panicked.
func Recovered(value any) *PanicError {
	count.Add(1)
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// Call calls f, and returns its error, or a *PanicError if it panicked.
func Call(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = Recovered(value)
		}
	}()
	return f()
}
