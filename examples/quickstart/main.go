// Quickstart shows, in some 25 seconds and on one page, what an API server's storage
// does wrong as upstream makes it, and what it does with rvfloor:
//
//	go run ./examples/quickstart [--plain] [--json] [--quick]
//
// It brings an etcd along and opens the same storage of pods twice over it: stock
// (genericregistry.StorageWithCacher) and rvfloor (apiserver.Backends). Then it
// plays five scenes with both. All figures are measured while it runs, and each
// scene checks what it claims: the exit status is 0 if all was seen as claimed, 1 if
// not, 2 for wrong flags, and 130 when it was stopped by Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rvfloor/rvfloor/internal/logfile"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops all cleanly; a second one ends a stop that hangs.
	context.AfterFunc(ctx, restore)
	os.Exit(program(ctx))
}

// program returns the exit status.
func program(ctx context.Context) int {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	stderr, tail := logfile.Capture()
	err = run(ctx, o, os.Stdout, stderr)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "quickstart: stopped")
		return 130
	}
	fmt.Fprint(stderr, tail())
	fmt.Fprintln(stderr, err)
	return 1
}

// options are what the flags say.
type options struct {
	plain, json bool
	sizes       sizes
}

// sizes are how often the scenes ask.
type sizes struct {
	elsewhere, storm, stormWarmUp, leases int
}

var (
	fullSizes = sizes{elsewhere: 50, storm: 5000, stormWarmUp: 5000, leases: 20}
	// A warm-up so small leaves too few goroutines behind to be waited for.
	quickSizes = sizes{elsewhere: 10, storm: 1000, stormWarmUp: 50, leases: 5}
)

// parse reads the flags. Its errors name the flag and the fix.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{sizes: fullSizes}
	var quick bool
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.plain, "plain", false, "no colours and no live lines, as where stdout is no terminal or NO_COLOR is set")
	flags.BoolVar(&o.json, "json", false, "print one JSON object instead of the page")
	flags.BoolVar(&quick, "quick", false, "ask less often: about half the time, and rougher figures")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("quickstart: %w; see --help for the flags", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("quickstart: argument %q is not a flag; there are no arguments", flags.Arg(0))
	}
	if quick {
		o.sizes = quickSizes
	}
	return o, nil
}
