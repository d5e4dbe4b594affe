// Command kine is the example API server, with rvfloor in front of its watch caches, over
// kine in place of etcd:
//
//	go run -C examples/kine .
//
// kine runs in a process of its own, over SQLite unless --dsn names another database.
// Kill it, or let it end itself: it is started again, and the API server goes on. With
// --processes 2 there are two kines over one database and an API server on each: what is
// written through one is in the next answer of the other.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
	"github.com/rvfloor/rvfloor/examples/apiserver/server"
	"github.com/rvfloor/rvfloor/examples/kine/process"
	"github.com/rvfloor/rvfloor/internal/logfile"
)

func main() {
	process.MaybeKine()
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops all cleanly; a second one ends a stop that hangs.
	context.AfterFunc(ctx, restore)
	stderr, tail := logfile.Capture()
	status := run(ctx, os.Args[1:], os.Stdout, stderr)
	if status == 1 {
		fmt.Fprint(stderr, tail())
	}
	os.Exit(status)
}

// run is the program: it serves until ctx ends and returns the exit code, 2 for a command
// line that cannot be used, 1 when starting, serving or stopping failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "kine: %v\n", err)
		return 2
	}
	err = c.serve(ctx, stdout, stderr)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(stderr, "kine: %v\n", err)
		return 1
	}
	return 0
}

// serve starts all, and returns when ctx or a server has ended and all has stopped.
func (c command) serve(ctx context.Context, stdout, stderr io.Writer) (err error) {
	dir, remove, err := c.dir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	var keeping sync.WaitGroup
	keep, stop := context.WithCancel(ctx)
	defer keeping.Wait()
	defer stop()
	var running []*server.Running
	for i := range c.processes {
		name := fmt.Sprintf("kine %d", i)
		kine, err := process.Start(ctx, process.Config{DSN: c.dsn, Dir: dir, Name: fmt.Sprintf("%d-", i)})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kine.Close()) }()
		keeping.Go(func() {
			kine.Keep(keep, func(err error, wait time.Duration) {
				fmt.Fprintf(stderr, "%s: %v\n%s: starting it again in %v\n", name, err, name, wait)
			}, func() { fmt.Fprintf(stderr, "%s: process %d serves\n", name, kine.ID()) })
		})
		options := server.Options{EtcdServers: []string{kine.Endpoint()}, Stock: c.stock}
		if i == 0 {
			options.Port = c.port
		}
		r, err := server.Start(ctx, options)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Stop()) }()
		running = append(running, r)
		greet(stdout, name, kine, r)
	}
	fmt.Fprintln(stdout, "\nCtrl-C stops it.")
	select {
	case <-ctx.Done():
		fmt.Fprintln(stdout, "\nStopping.")
		return nil
	case <-running[0].Done():
	case <-running[len(running)-1].Done():
	}
	return errors.New("a server ended by itself")
}

// dir is the folder of kine's files.
func (c command) dir() (dir string, remove func() error, err error) {
	if c.dataDir != "" {
		return c.dataDir, func() error { return nil }, os.MkdirAll(c.dataDir, 0o700)
	}
	dir, err = os.MkdirTemp("", "rvfloor-kine-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// greet prints where a server is and what to try. "Serving on <URL>" and "Kubeconfig
// <file>" stand on lines of their own, for programs that start this one.
func greet(w io.Writer, name string, kine *process.Process, r *server.Running) {
	widgets := fmt.Sprintf("%s/apis/%s/namespaces/default/widgets", r.URL, demo.GroupVersion)
	fmt.Fprintf(w, `Serving on %[1]s
Kubeconfig %[2]s
  over %[3]s, process %[4]d, log %[5]s
  curl -k %[6]s
  kubectl --kubeconfig '%[2]s' get widgets --watch
  kill -9 %[4]d    # it is started again, and the API server goes on
`, r.URL, r.Kubeconfig, name, kine.ID(), kine.Log(), widgets)
}
