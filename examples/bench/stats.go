package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// outcome is one run of one side.
type outcome struct {
	name          string
	p50, p90, p99 time.Duration
	total         time.Duration
	counts        counts
	// errors are wrong answers: failed, incomplete, or older than they may be. stale
	// are answers older than a write acknowledged before the call, from a side that
	// does not promise more.
	errors, stale int64
	firstError    error
}

func newOutcome(spec sideSpec, samples []sample, c counts) outcome {
	o := outcome{name: spec.name, counts: c}
	for _, s := range samples {
		if err := spec.check(s); err != nil {
			o.errors++
			o.firstError = cmp.Or(o.firstError, err)
		} else if s.revision < s.acknowledged {
			o.stale++
		}
	}
	took := make([]time.Duration, len(samples))
	for i, s := range samples {
		took[i] = s.took
	}
	slices.Sort(took)
	o.p50, o.p90, o.p99 = percentile(took, 50), percentile(took, 90), percentile(took, 99)
	return o
}

// check says what is wrong with an answer.
func (spec sideSpec) check(s sample) error {
	switch {
	case s.err != nil:
		return s.err
	case s.items != spec.items:
		return fmt.Errorf("an answer of %d items; there are %d", s.items, spec.items)
	case spec.fresh && s.revision < s.acknowledged:
		return fmt.Errorf("an answer at revision %d; %d was acknowledged before the call", s.revision, s.acknowledged)
	}
	return nil
}

// percentile is the smallest of sorted that p percent are not above (nearest
// rank).
func percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
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
