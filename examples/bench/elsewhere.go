package main

import (
	"context"
	"runtime"
	"time"
)

// elsewhere asks the sides in turn, each directly after a write of its own to
// another resource: what one side's call leaves behind (a cache that has caught
// up, a warm connection) helps no other.
func elsewhere(ctx context.Context, b *bench, n int) ([]outcome, error) {
	samples := make([][]sample, len(b.sides))
	ends := make([]func() counts, len(b.sides))
	runtime.GC()
	for i, s := range b.sides {
		samples[i] = make([]sample, 0, n)
		ends[i] = s.meter.begin()
	}
	for round := range n {
		for _, i := range b.order(round) {
			acknowledged, err := b.lab.writeElsewhere(ctx)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], b.sides[i].sample(ctx, acknowledged))
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	outcomes := make([]outcome, len(b.sides))
	for i, s := range b.sides {
		outcomes[i] = newOutcome(s.sideSpec, samples[i], ends[i]())
		outcomes[i].total = sum(samples[i])
	}
	return outcomes, nil
}

// sample is one call and its answer.
type sample struct {
	took time.Duration
	answer
	err error
	// acknowledged is the revision of a write that was acknowledged before the call,
	// and that a fresh answer reflects.
	acknowledged uint64
}

func (s *side) sample(ctx context.Context, acknowledged uint64) sample {
	ctx, cancel := callContext(ctx)
	defer cancel()
	start := time.Now()
	a, err := s.call(ctx)
	return sample{took: time.Since(start), answer: a, err: err, acknowledged: acknowledged}
}

func sum(samples []sample) (total time.Duration) {
	for _, s := range samples {
		total += s.took
	}
	return total
}
