package main

import (
	"context"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// checks is called right before a storm and answers what tells the revision that a
// call beginning now must reflect.
type checks func(context.Context, *sides.Lab, *sides.Writer) (newest func() uint64, err error)

// listChecks: a list shows the revision that it reflects, so it must not be below
// the writer's newest write.
func listChecks(_ context.Context, _ *sides.Lab, w *sides.Writer) (func() uint64, error) {
	return w.Acknowledged.Load, nil
}

// watchChecks: a Watch shows the revisions of its objects only, so one of them is
// written right before the storm and must be seen as written.
func watchChecks(ctx context.Context, l *sides.Lab, _ *sides.Writer) (func() uint64, error) {
	revision, err := l.WritePod(ctx, 0)
	return func() uint64 { return revision }, err
}

// storms lets each side have a storm of its own, one after the other.
func storms(against checks) func(context.Context, *bench, int) ([]outcome, error) {
	return func(ctx context.Context, b *bench, n int) ([]outcome, error) {
		outcomes := make([]outcome, len(b.sides))
		for _, i := range b.order(0) {
			var err error
			if outcomes[i], err = storm(ctx, b, b.sides[i], n, against); err != nil {
				return nil, err
			}
		}
		return outcomes, nil
	}
}

// storm makes n calls of one side at once.
func storm(ctx context.Context, b *bench, s *side, n int, against checks) (outcome, error) {
	if err := sides.Settle(ctx, b.goroutines); err != nil {
		return outcome{}, err
	}
	var end func() sides.Counts
	samples, err := b.lab.Storm(ctx, n, s.call, func(w *sides.Writer) (func() uint64, error) {
		end = s.port.Measure()
		return against(ctx, b.lab, w)
	})
	if err != nil {
		return outcome{}, err
	}
	o := newOutcome(s.sideSpec, samples, end())
	o.total = sides.Longest(samples)
	return o, nil
}
