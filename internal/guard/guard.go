// Package guard keeps code that is not ours from ending the process when it panics on
// a goroutine of ours, where no API server recovers it.
package guard

import (
	"errors"
	"fmt"
	"runtime/debug"
)

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

// Call calls f, and returns its error, or a *PanicError if it panicked.
func Call(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}
