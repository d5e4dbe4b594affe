package faultlab

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// census is what must not grow with faults, counted while no client works.
type census struct {
	goroutines map[stack]int // of the process: of the servers, and of the doors before etcd
	streams    int           // of watches, that are open at the members
}

// stack is what a goroutine is at.
type stack [32]uintptr

func goroutines() map[stack]int {
	records := make([]runtime.StackRecord, 2*runtime.NumGoroutine())
	n, _ := runtime.GoroutineProfile(records)
	counts := map[stack]int{}
	for _, r := range records[:n] {
		counts[r.Stack0]++
	}
	return counts
}

func (c census) total() (n int) {
	for _, count := range c.goroutines {
		n += count
	}
	return n
}

// covers says that no more goroutines than in c are in now, and as many streams.
func (c census) covers(now census) bool { return now.total() <= c.total() && now.streams == c.streams }

// beyond tells where now has more than c.
func (c census) beyond(now census) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d goroutines and %d streams of watches are left, of %d and %d; more are:", now.total(), now.streams, c.total(), c.streams)
	for at, n := range now.goroutines {
		if more := n - c.goroutines[at]; more > 0 {
			fmt.Fprintf(&b, "\n%d", more)
			record := runtime.StackRecord{Stack0: at}
			for frames := runtime.CallersFrames(record.Stack()); ; {
				frame, another := frames.Next()
				fmt.Fprintf(&b, "\n\t%s %s:%d", frame.Function, frame.File, frame.Line)
				if !another {
					break
				}
			}
		}
	}
	return b.String()
}

// complete says that all streams are open: one for the truth, and for each server those of
// its two caches and its compactor's, which opens it after a second.
func (l *lab) complete(now census) bool { return now.streams == 1+3*len(l.servers) }

// quietFor is how long counts may take to come down: far above a reconnect.
const quietFor = 15 * time.Second

// count lets all clients pause, waits until enough says that a census is so, and
// returns the last. An error says that there was none.
func (l *lab) count(ctx context.Context, enough func(census) bool) (c census, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, quietFor, fmt.Errorf("not within %v", quietFor))
	defer cancel()
	l.steps.Lock()
	defer l.steps.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
		// Before the members are asked, which takes goroutines too that end a little later.
		now := census{goroutines: goroutines()}
		if now.streams, err = l.cluster.WatchStreams(ctx); err != nil && ctx.Err() == nil {
			return c, err
		}
		if err == nil {
			if c = now; enough(c) {
				return c, nil
			}
		}
	}
}
