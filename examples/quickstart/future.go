package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// future asks for a revision that etcd will not have reached when the call ends.
func future(ctx context.Context, s *stage) (result, error) {
	newest, err := s.lab.WriteElsewhere(ctx)
	if err != nil {
		return result{}, err
	}
	resourceVersion := strconv.FormatUint(newest+1000, 10)
	r := result{Seen: true}
	var waited [2]time.Duration
	for i, of := range []side{s.stock, s.rvfloor} {
		s.status(of.name + ": waiting for the answer")
		sample := sides.Ask(ctx, sides.List(of.store, "", resourceVersion), 0)
		waited[i] = sample.Took
		r.Seen = r.Seen && storage.IsTooLargeResourceVersion(sample.Err)
		r.Rows = append(r.Rows, returned(of.name, sample))
	}
	r.Seen = r.Seen && waited[1] < waited[0]/5
	r.Verdict = fmt.Sprintf("the same error, %s sooner: it is known from the floor", times(waited[0], waited[1]))
	return r, nil
}

// returned is the row of one call: how long it took, and what it failed with.
func returned(name string, s sides.Sample) row {
	r := row{Side: name, Figures: figures{took("returned", "", s.Took)}}
	if s.Err != nil {
		r.Error = s.Err.Error()
	}
	return r
}
