package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// checks is called right before a storm and answers what tells the revision that a
// call beginning now must reflect; it is there also when there is an error.
type checks func(ctx context.Context, l *lab, w *writer) (newest func() uint64, err error)

// listChecks: a list shows the revision that it reflects, so it must not be below
// the writer's newest write.
func listChecks(_ context.Context, _ *lab, w *writer) (func() uint64, error) {
	return w.acknowledged.Load, nil
}

// watchChecks: a Watch shows the revisions of its objects only, so one of them is
// written right before the storm and must be seen as written.
func watchChecks(ctx context.Context, l *lab, _ *writer) (func() uint64, error) {
	revision, err := l.writePod(ctx, 0)
	return func() uint64 { return revision }, err
}

// storms lets each side have a storm of its own, one after the other.
func storms(against checks) func(context.Context, *bench, int) ([]outcome, error) {
	return func(ctx context.Context, b *bench, n int) ([]outcome, error) {
		outcomes := make([]outcome, len(b.sides))
		for _, i := range b.order(0) {
			var err error
			if outcomes[i], err = storm(ctx, b.lab, b.sides[i], n, against); err != nil {
				return nil, err
			}
		}
		return outcomes, nil
	}
}

// storm makes n calls at once while another resource is written. The time of a
// call is from the release of all to its answer, also where it first had to wait
// for a core: that is what a caller sees.
func storm(ctx context.Context, l *lab, s *side, n int, against checks) (o outcome, err error) {
	if err := l.settle(ctx); err != nil {
		return o, err
	}
	w, err := l.startWriter(ctx)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	samples := make([]sample, n)
	var newest func() uint64
	var released time.Time
	release := make(chan struct{}) // closed when the two above are set
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range samples {
		done.Go(func() {
			ctx, cancel := callContext(ctx)
			defer cancel()
			ready.Done()
			<-release
			acknowledged := newest()
			a, err := s.call(ctx)
			samples[i] = sample{took: time.Since(released), answer: a, err: err, acknowledged: acknowledged}
		})
	}
	ready.Wait()
	runtime.GC() // what is left of the side before is not this one's to collect
	end := s.meter.begin()
	newest, err = against(ctx, l, w)
	released = time.Now()
	close(release) // also after an error, or the callers would stay
	done.Wait()
	if err != nil {
		return o, err
	}
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	o = newOutcome(s.sideSpec, samples, end())
	o.total = longest(samples)
	return o, nil
}

func longest(samples []sample) (total time.Duration) {
	for _, s := range samples {
		total = max(total, s.took)
	}
	return total
}

const (
	// settleTimeout is far above the 3 s for which upstream's cache leaves a goroutine
	// behind for each consistent list.
	settleTimeout = time.Minute
	// settled is how many goroutines more than at the start are none of those: streams
	// and connections that were opened later.
	settled = 100
)

// settle waits until the goroutines of earlier storms have ended, so that they
// wake up in nobody else's. Nothing tells of their end but their number.
func (l *lab) settle(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, settleTimeout, true, func(context.Context) (bool, error) {
		return runtime.NumGoroutine() <= l.goroutines+settled, nil
	})
	if err != nil {
		return fmt.Errorf("bench: the goroutines of an earlier storm did not end: %w", err)
	}
	return nil
}
