package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/k3s-io/kine/pkg/app"
	"github.com/k3s-io/kine/pkg/endpoint"
)

// childEnv holds the childSpec of a process that is to be kine.
const childEnv = "RVFLOOR_KINE"

// mayHaveChildren is set once this process has passed MaybeKine. A program that does not
// call it would do its usual work in each child, with children of its own.
var mayHaveChildren atomic.Bool

// childSpec is what a child needs to know. Its standard input ends with its parent, and
// it closes its file 3 when it serves.
type childSpec struct{ DSN, Socket string }

// MaybeKine must be called first in main or TestMain by programs that use [Start], which
// runs the same program once more. There it is kine and does not return; elsewhere it
// does nothing.
func MaybeKine() {
	spec, ok := os.LookupEnv(childEnv)
	if !ok {
		mayHaveChildren.Store(true)
		return
	}
	os.Unsetenv(childEnv)
	fmt.Fprintln(os.Stderr, runKine(spec))
	os.Exit(1)
}

// runKine returns only where kine cannot serve.
func runKine(text string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has gone
	}()
	signal.Ignore(os.Interrupt) // Ctrl-C is for the parent
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	config := app.Config(nil) // kine's own defaults; a zero Config fails
	config.Endpoint, config.Listener = spec.DSN, "unix://"+spec.Socket
	if _, err := endpoint.Listen(context.Background(), config); err != nil {
		return err
	}
	if _, err := os.NewFile(3, "serving").WriteString(serving); err != nil {
		return err
	}
	select {} // until it is killed, or kine ends it
}
