package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

const (
	// informersObjects is what a watch-list brings.
	informersObjects = 5000
	// Each run has so many watch-lists of a side, one at a time, and its events are written
	// in so many parts: the sides take turns with each, so that what else the machine does
	// falls on both. A part of the default size fits into the channels of a watch: one that
	// does not keep up is ended by the cache.
	informersLists = 5
	informersParts = 50

	// listedNamespace holds the objects of the watch-lists. Each side has a namespace of its
	// own for its other watches, so that those of all sides can be open all the time.
	listedNamespace = "listed"
)

// The costs of a side in a run.
const (
	costList    = "watch-list"
	costListCPU = "watch-list cpu"
	costFan     = "fan-out"
	costFanCPU  = "fan-out cpu"
)

var informersCosts = []string{costList, costListCPU, costFan, costFanCPU}

// fan returns how many watches see how many writes of one side in a run.
func fan(n int) (watches, writes int) {
	return max(n/25, 1), max(2*n/25/informersParts, 1) * informersParts
}

func fillInformers(ctx context.Context, l *sides.Lab, n int) error {
	return l.FillNamespace(ctx, listedNamespace, n)
}

// informers has each side answer watch-lists of n objects, as informers begin, and hand
// on writes to many watches, as informers go on, both over HTTP.
func informers(ctx context.Context, b *bench, n int) ([]outcome, error) {
	samples := make([][]sides.Sample, len(b.sides))
	costs := make([]map[string]time.Duration, len(b.sides))
	ends := make([]func() sides.Counts, len(b.sides))
	for i, s := range b.sides {
		costs[i] = map[string]time.Duration{}
		ends[i] = s.port.Measure()
	}
	for round := range informersLists {
		for _, i := range b.order(round) {
			// So the caches are at the newest revision by themselves: else stock waits for
			// its tick, which is what "elsewhere" shows.
			acknowledged, err := b.lab.WritePodIn(ctx, listedNamespace, 0)
			if err != nil {
				return nil, err
			}
			runtime.GC() // what is left of the other side is not this one's to collect
			err = costOf(costs[i], costList, func() error {
				samples[i] = append(samples[i], sides.Ask(ctx, b.sides[i].call, acknowledged))
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	if err := fanOut(ctx, b, n, costs); err != nil {
		return nil, err
	}
	outcomes := make([]outcome, len(b.sides))
	for i, s := range b.sides {
		spec := s.sideSpec
		spec.items = b.items(n)
		outcomes[i] = newOutcome(spec, samples[i], ends[i]())
		outcomes[i].total = sum(samples[i])
		outcomes[i].costs, outcomes[i].flushes = costs[i], s.informed.flushes.Swap(0)
	}
	return outcomes, nil
}

// fanOut opens the watches of all sides, and writes for one side at a time.
func fanOut(ctx context.Context, b *bench, n int, costs []map[string]time.Duration) error {
	watches, writes := fan(n)
	part := writes / informersParts
	ctx, cancel := context.WithCancelCause(ctx)
	seen := make([]sync.WaitGroup, len(b.sides)) // the events of a part, in all watches
	var open, watching sync.WaitGroup
	defer func() { cancel(nil); watching.Wait() }()
	for i, s := range b.sides {
		// A watch from a revision begins with nothing but what comes after it.
		revision, err := b.lab.WritePodIn(ctx, namespaceOf(i), 0)
		if err != nil {
			return err
		}
		for range watches {
			open.Add(1)
			watching.Go(func() {
				err := s.informed.watch(ctx, namespaceOf(i), revision, open.Done, seen[i].Done)
				if ctx.Err() == nil {
					cancel(fmt.Errorf("bench: a watch of %s ended: %w", s.name, err))
				}
			})
		}
	}
	if err := wait(ctx, &open); err != nil {
		return err
	}
	for round := range informersParts {
		for _, i := range b.order(round) {
			seen[i].Add(watches * part)
			err := costOf(costs[i], costFan, func() error {
				for range part {
					if _, err := b.lab.WritePodIn(ctx, namespaceOf(i), 0); err != nil {
						return err
					}
				}
				return wait(ctx, &seen[i])
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func namespaceOf(side int) string { return fmt.Sprintf("side-%d", side) }

// costOf adds up the time and the CPU of what f does.
func costOf(costs map[string]time.Duration, name string, f func() error) error {
	began, used := time.Now(), cpuTime()
	err := f()
	costs[name] += time.Since(began)
	costs[name+" cpu"] += cpuTime() - used
	return err
}

// wait is group.Wait, or the end of ctx.
func wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
