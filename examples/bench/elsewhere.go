package main

import (
	"context"
	"runtime"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// elsewhere asks the sides in turn, each directly after a write of its own to
// another resource: what one side's call leaves behind (a cache that has caught
// up, a warm connection) helps no other.
func elsewhere(ctx context.Context, b *bench, n int) ([]outcome, error) {
	samples := make([][]sides.Sample, len(b.sides))
	ends := make([]func() sides.Counts, len(b.sides))
	runtime.GC()
	for i, s := range b.sides {
		samples[i] = make([]sides.Sample, 0, n)
		ends[i] = s.port.Measure()
	}
	for round := range n {
		for _, i := range b.order(round) {
			acknowledged, err := b.lab.WriteElsewhere(ctx)
			if err != nil {
				return nil, err
			}
			samples[i] = append(samples[i], sides.Ask(ctx, b.sides[i].call, acknowledged))
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

func sum(samples []sides.Sample) (total time.Duration) {
	for _, s := range samples {
		total += s.Took
	}
	return total
}
