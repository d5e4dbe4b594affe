// Bench compares verified reads with the API server's own and with plain etcd,
// in one process over one embedded etcd:
//
//	go run ./examples/bench --scenario=elsewhere|storm|zero|watch|informers [--n N] [--runs R] [--json]
//
// The scenarios:
//
//   - elsewhere: a LIST of 100 objects right after a write to another resource, one
//     call at a time. Stock waits for the tick of its progress requester.
//   - storm: 5,000 such LISTs at once while another resource is written.
//   - zero: the same at resourceVersion "0", which stock answers with whatever it has.
//   - watch: the same as Watches without a resourceVersion, to their first 100 events.
//     Stock serves them from whatever it has, too.
//   - informers: what every informer costs an API server, over HTTP: a watch-list of
//     5,000 objects, and 200 watches that each see 400 writes. The time, and the CPU of
//     the whole process, clients and etcd included; the sides take turns.
//
// The sides are stock (genericregistry.StorageWithCacher), rvfloor
// (apiserver.Backends.StorageDecorator), unverified (stock at resourceVersion "0")
// and etcd-get (one linearizable Get). Each has clients, connections and an etcd
// address of its own, where the server counts what comes in; set-up, warm-up and
// the writers are not counted. Every answer is checked.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is main without the process: the report goes to stdout, all else to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	stop, err := profile(o.profile)
	if err != nil {
		return err
	}
	result, err := measure(ctx, o.scenario, o.n, o.runs, stderr)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	if !o.json {
		return result.table(stdout)
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(result)
}

// options are what the flags say.
type options struct {
	scenario *scenario
	n, runs  int
	json     bool
	profile  string
}

const defaultRuns = 5

// parse reads the flags. Its errors name the flag and the fix.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var name string
	names := strings.Join(scenarioNames(), ", ")
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&name, "scenario", "", "what to measure, one of "+names+" (required)")
	flags.IntVar(&o.n, "n", 0, "calls of each side in a run (informers: objects of a watch-list, and in proportion watches and writes); 0: 400 in elsewhere, else 5000")
	flags.IntVar(&o.runs, "runs", defaultRuns, "runs, of which the report gives the medians")
	flags.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
	flags.StringVar(&o.profile, "profile", "", "a `directory` for profiles of the whole process: cpu, allocs, mutex, block")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("bench: %w; see --help for the flags", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("bench: argument %q is not a flag; use --scenario=NAME and no arguments", flags.Arg(0))
	}
	if o.scenario = scenarioNamed(name); o.scenario == nil {
		return o, fmt.Errorf("bench: --scenario is %q; use one of %s", name, names)
	}
	if o.n < 0 {
		return o, fmt.Errorf("bench: --n is %d; use a positive number, or leave it out for %d", o.n, o.scenario.n)
	}
	if o.n == 0 {
		o.n = o.scenario.n
	}
	if o.runs < 1 {
		return o, fmt.Errorf("bench: --runs is %d; use a positive number, or leave it out for %d", o.runs, defaultRuns)
	}
	return o, nil
}
