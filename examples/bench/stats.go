package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// outcome is one run of one side.
type outcome struct {
	name          string
	p50, p90, p99 time.Duration
	total         time.Duration
	counts        sides.Counts
	costs         map[string]time.Duration // by name, where the scenario has any
	flushes       int64                    // of what was served over HTTP
	// errors are wrong answers: failed, incomplete, or older than they may be. stale
	// are answers older than a write acknowledged before the call, from a side that
	// does not promise more.
	errors, stale int64
	firstError    error
}

func newOutcome(spec sideSpec, samples []sides.Sample, c sides.Counts) outcome {
	o := outcome{name: spec.name, counts: c}
	for _, s := range samples {
		if err := spec.check(s); err != nil {
			o.errors++
			o.firstError = cmp.Or(o.firstError, err)
		} else if s.Stale() {
			o.stale++
		}
	}
	took := make([]time.Duration, len(samples))
	for i, s := range samples {
		took[i] = s.Took
	}
	slices.Sort(took)
	o.p50, o.p90, o.p99 = sides.Percentile(took, 50), sides.Percentile(took, 90), sides.Percentile(took, 99)
	return o
}

// check says what is wrong with an answer.
func (spec sideSpec) check(s sides.Sample) error {
	switch {
	case s.Err != nil:
		return s.Err
	case s.Items != spec.items:
		return fmt.Errorf("an answer of %d items; there are %d", s.Items, spec.items)
	case spec.fresh && s.Stale():
		return fmt.Errorf("an answer at revision %d; %d was acknowledged before the call", s.Revision, s.Acknowledged)
	}
	return nil
}

// median of an even number of values is the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// medianCall and lastAnswer are what scenarios compare sides by, in seconds.
func medianCall(o outcome) float64 { return o.p50.Seconds() }
func lastAnswer(o outcome) float64 { return o.total.Seconds() }
