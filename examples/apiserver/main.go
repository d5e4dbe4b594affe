// Command apiserver is a complete API server with rvfloor in front of its watch
// caches, over an etcd that it brings along. Start it, and talk to it with kubectl
// or curl, as the lines that it prints say:
//
//	go run ./examples/apiserver
//
// With --stock it runs upstream's storage as it comes, for comparison, and with
// --aggregated behind kube-aggregator. See --help for the rest, and the package
// server for the one line that wires rvfloor in.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops the server cleanly; from then on signals are the
	// runtime's again, so that a second one ends a stop that hangs.
	context.AfterFunc(ctx, restore)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it serves until ctx ends and returns the exit code, 2 for
// a command line that cannot be used, 1 when starting, serving or stopping failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = c.Validate()
	}
	if err == nil {
		err = setUpLogging(c.verbosity)
	}
	if err == nil {
		c.TracerProvider, err = newTracerProvider(ctx, c.trace, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "apiserver: %v\n", err)
		return 2
	}

	running, err := server.Start(ctx, c.Options)
	if ctx.Err() != nil && err != nil {
		return 0 // stopped while starting
	}
	if err != nil {
		fmt.Fprintf(stderr, "apiserver: %v\n", err)
		return 1
	}
	greet(stdout, running, c.Options)

	select {
	case <-ctx.Done():
		fmt.Fprintln(stdout, "\nStopping.")
	case <-running.Done():
		fmt.Fprintln(stderr, "apiserver: the server ended by itself")
	}
	stopped := ctx.Err() != nil
	if err := running.Stop(); err != nil {
		fmt.Fprintf(stderr, "apiserver: stopping: %v\n", err)
		return 1
	}
	if !stopped {
		return 1
	}
	return 0
}
