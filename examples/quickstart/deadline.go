package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/sides"
)

const callerDeadline = 100 * time.Millisecond

// deadline asks while a write is on its way to the cache and does not get there.
func deadline(ctx context.Context, s *stage) (result, error) {
	var r result
	var samples [2]sides.Sample
	for i, of := range []side{s.stock, s.rvfloor} {
		s.status(of.name + ": waiting for the answer")
		var err error
		if samples[i], err = s.askHeld(ctx, of); err != nil {
			return result{}, err
		}
		r.Rows = append(r.Rows, returned(of.name, samples[i]))
	}
	stock, ours := samples[0], samples[1]
	r.Seen = stock.Err != nil && stock.Took >= 10*callerDeadline &&
		errors.Is(ours.Err, decorator.ErrNotFresh) && ours.Took < stock.Took/5
	late := func(s sides.Sample) string { return span(max(0, s.Took-callerDeadline)) }
	r.Verdict = fmt.Sprintf("rvfloor says why, %s after the deadline; stock is %s late", late(ours), late(stock))
	return r, nil
}

// askHeld makes one call with the caller's deadline while the side's watches are
// held back, after a write that its cache would have to learn of.
func (s *stage) askHeld(ctx context.Context, of side) (sides.Sample, error) {
	of.port.Watches.Hold()
	defer of.port.Watches.Release()
	acknowledged, err := s.lab.WriteElsewhere(ctx)
	if err != nil {
		return sides.Sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callerDeadline)
	defer cancel()
	return sides.Ask(ctx, sides.List(of.store, "", ""), acknowledged), nil
}
