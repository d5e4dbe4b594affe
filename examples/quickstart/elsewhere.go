package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// elsewhereWarmUp is enough for both caches, and for rvfloor to have learned
// whether a progress request beside the floor read pays.
const elsewhereWarmUp = 10

// elsewhere asks the sides one after the other, each directly after a write of its
// own. Their order changes from round to round, so that none always follows stock,
// which leaves the machine asleep.
func elsewhere(ctx context.Context, s *stage) (result, error) {
	asked := []struct {
		name string
		call sides.Call
	}{
		{nameStock, sides.List(s.stock.store, "", "")},
		{nameRVFloor, sides.List(s.rvfloor.store, "", "")},
		{"stock RV=0", sides.List(s.stock.store, "", "0")},
	}
	samples := make([][]sides.Sample, len(asked))
	for round := range elsewhereWarmUp + s.size.elsewhere {
		s.status(fmt.Sprintf("LIST %d of %d", max(round-elsewhereWarmUp, 0)+1, s.size.elsewhere))
		for _, i := range rand.Perm(len(asked)) {
			acknowledged, err := s.lab.WriteElsewhere(ctx)
			if err != nil {
				return result{}, err
			}
			sample := sides.Ask(ctx, asked[i].call, acknowledged)
			if round >= elsewhereWarmUp {
				samples[i] = append(samples[i], sample)
			}
		}
		if ctx.Err() != nil {
			return result{}, context.Cause(ctx)
		}
	}

	var r result
	var p50 [3]time.Duration
	var stale [3]int
	for i, a := range asked {
		var err error
		if stale[i], err = checked(a.name, samples[i]); err != nil {
			return result{}, err
		}
		var sorted []time.Duration
		for _, sample := range samples[i] {
			sorted = append(sorted, sample.Took)
		}
		slices.Sort(sorted)
		p50[i] = sides.Percentile(sorted, 50)
		r.Rows = append(r.Rows, row{Side: a.name, Figures: figures{
			took("p50", "p50", p50[i]),
			took("p99", "p99", sides.Percentile(sorted, 99)),
			count("stale", "stale", stale[i]),
		}})
	}
	r.Seen = p50[1] < p50[0]/5 && stale[0] == 0 && stale[1] == 0 && stale[2] > 0
	r.Verdict = fmt.Sprintf("as fresh as stock and %s sooner; RV=0 is quick, and stale", times(p50[0], p50[1]))
	return r, nil
}
