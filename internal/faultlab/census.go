package faultlab

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"time"
)

// census is what must not grow with faults, counted while no client works.
type census struct {
	goroutines int // of the process: of the servers, and of the doors before etcd
	streams    int // of watches, that are open at the members
}

// covers says that no more than in c is in now.
func (c census) covers(now census) bool {
	return now.goroutines <= c.goroutines && now.streams <= c.streams
}

// complete says that all streams are open: one for the truth, and for each server its
// cache's and its compactor's, which opens it after a second.
func (l *lab) complete(now census) bool { return now.streams == 1+2*len(l.servers) }

// quietFor is how long counts may take to come down: far above a reconnect.
const quietFor = 15 * time.Second

// count lets all clients pause, waits until enough says that a census is so, and
// returns the last.
func (l *lab) count(ctx context.Context, enough func(census) bool) (c census, err error) {
	ctx, cancel := context.WithTimeout(ctx, quietFor)
	defer cancel()
	l.steps.Lock()
	defer l.steps.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		streams, err := l.cluster.WatchStreams(ctx)
		if err != nil && ctx.Err() == nil {
			return c, err
		}
		if err == nil {
			c = census{runtime.NumGoroutine(), streams}
			if enough(c) {
				return c, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			return c, fmt.Errorf("%d goroutines and %d streams of watches are left:\n%s", c.goroutines, c.streams, stacks.Bytes())
		}
	}
}
