// Doctor looks at a backend that speaks etcd's protocol and tells whether verified
// reads over it are safe, how they would be verified, and why:
//
//	go run ./examples/doctor --endpoints=http://127.0.0.1:2379
//
// It watches what the backend does, by package decorator/probe, and believes nothing
// that the backend says of itself, but for warnings of what a version is known for. It writes a few hundred keys under one prefix
// (/registry/rvfloor/probe/, see --prefix) and deletes them again. The exit status is 0
// if verified reads are safe, 1 if they are not, and 2 if that could not be told: also
// where the backend cannot be reached or does not let it write, and after wrong flags.
// (go run makes 1 of any but 0: for scripts build it.)
//
// For an etcd with TLS give it what an API server has:
//
//	go run ./examples/doctor --endpoints=https://10.0.0.1:2379,https://10.0.0.2:2379 --cacert=ca.crt --cert=client.crt --key=client.key
//
// With --json the report is one JSON object on the standard output, and all else goes
// to the standard error. Who takes rvfloor off a cluster removes what it keeps there
// with --cleanup: the sentinel key, and what a probe that was killed has left.
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

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
	"github.com/rvfloor/rvfloor/freshness"
)

// The exit statuses.
const (
	exitSafe = iota
	exitUnsafe
	exitUnsure
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the first lets it delete what it wrote
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process, and answers the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitSafe
	}
	status := exitUnsure
	if err == nil {
		status, err = o.do(ctx, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "doctor:", err)
	}
	return status
}

func (o options) do(ctx context.Context, stdout io.Writer) (int, error) {
	patient, err := o.connect(ctx)
	if err != nil {
		return exitUnsure, err
	}
	defer patient.close()
	sentinel := freshness.SentinelKey(o.prefix)
	prefix := probe.PrefixFor(sentinel)
	if o.cleanup {
		if err := cleanUp(ctx, patient.clients[0], sentinel, prefix, stdout); err != nil {
			return exitUnsure, err
		}
		return exitSafe, nil
	}
	report, err := probe.Observe(ctx, probe.Config{Clients: patient.clients, Prefix: prefix, Effort: o.effort, Limit: limit + o.effort})
	if err != nil {
		return exitUnsure, err
	}
	d := diagnosis{Endpoints: o.endpoints, Claims: patient.claims, Warnings: warnings(patient.claims), Safe: report.Safe(), Report: report}
	if o.json {
		err = d.json(stdout)
	} else {
		err = d.table(stdout)
	}
	switch {
	case err != nil:
		return exitUnsure, err
	case d.Safe == decorator.VerdictYes:
		return exitSafe, nil
	case d.Safe == decorator.VerdictNo:
		return exitUnsafe, nil
	}
	return exitUnsure, nil
}
