// Timetravel plays kubernetes#59848 with an API server's storage as upstream makes
// it, and with rvfloor, side by side:
//
//	go run ./examples/timetravel
//
// A pod is deleted, and a new one of the same name is created on another node. The
// kubelet of the old node restarts and asks an API server that has not heard of it,
// at resourceVersion=0, which pods it has to run. It plays twice: with an API server
// whose etcd member is cut off from the majority, and with one that reaches a healthy
// etcd and whose watch alone is behind; rvfloor fails there because it is told to
// (OnUnverified "Fail"), and would else have etcd answer. It takes some 10 seconds. The
// exit status is 0 if all was seen as claimed, 1 if not, and 130 when it was stopped by Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rvfloor/rvfloor/internal/logfile"
	"github.com/rvfloor/rvfloor/internal/sides"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal stops all cleanly; a second one ends a stop that hangs.
	context.AfterFunc(ctx, restore)
	os.Exit(program(ctx))
}

// program returns the exit status.
func program(ctx context.Context) int {
	stderr, tail := logfile.Capture()
	fmt.Println("Two API servers, A and B, over one etcd: stock, and with rvfloor.")
	err := run(ctx, stories, [2]sides.Kind{sides.Stock, sides.Strict}, os.Stdout)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "timetravel: stopped")
		return 130
	}
	fmt.Fprint(stderr, tail())
	fmt.Fprintln(stderr, err)
	return 1
}

type story struct {
	title string
	open  opener
}

var stories = []story{
	{"B's etcd member is cut off from the majority", cutOff},
	{"B reaches a healthy etcd; only its watch is behind", behind},
}

// run tells the stories with a cluster of each kind. The error says what went wrong,
// or what was not as claimed.
func run(ctx context.Context, stories []story, kinds [2]sides.Kind, out io.Writer) error {
	var wrong []error
	for i, story := range stories {
		t := newTimeline(out, fmt.Sprintf("%d  %s", i+1, story.title))
		got, err := tell(ctx, story.open, kinds, t)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = got.check()
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("timetravel: story %d, %s: %w", i+1, story.title, err))
			continue
		}
		t.end("stock ran web-0 on two nodes at once; rvfloor said when to ask again, and then the truth")
	}
	return errors.Join(wrong...)
}
