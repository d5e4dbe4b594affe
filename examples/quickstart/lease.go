package main

import (
	"context"
	"fmt"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// leasedPods share a lease, as upstream lets objects with a TTL share one.
const leasedPods = 500

// lease ends a lease again and again, and lists its pods when that was acknowledged:
// one revision deletes them all, so there are none.
func lease(ctx context.Context, s *stage) (result, error) {
	var r result
	var shown [2]int
	for i, of := range []side{s.stock, s.rvfloor} {
		most := 0
		for round := range s.size.leases {
			s.status(fmt.Sprintf("%s: lease %d of %d", of.name, round+1, s.size.leases))
			left, err := s.endLease(ctx, of, fmt.Sprintf("%s-%d", of.name, round))
			if err != nil {
				return result{}, fmt.Errorf("%s: %w", of.name, err)
			}
			if left > 0 {
				shown[i]++
			}
			most = max(most, left)
		}
		r.Rows = append(r.Rows, row{Side: of.name, Figures: figures{
			count("lists_with_deleted", "LISTs that show deleted pods", shown[i]),
			count("most_deleted", "pods shown at most", most),
		}})
	}
	r.Seen = shown[0] > 0 && shown[1] == 0
	r.Verdict = "stock takes a revision for whole at its first event, rvfloor at its last"
	return r, nil
}

// endLease answers how many pods a LIST still shows that began after their lease
// had ended.
func (s *stage) endLease(ctx context.Context, of side, namespace string) (int, error) {
	end, err := s.lab.LeasePods(ctx, namespace, leasedPods)
	if err != nil {
		return 0, err
	}
	list := sides.List(of.store, namespace, "")
	// Stock may show a part of a transaction, so one answer may not hold all pods yet.
	for all := false; !all; {
		before := sides.Ask(ctx, list, 0)
		if before.Err != nil {
			return 0, before.Err
		}
		all = before.Items == leasedPods
	}
	if err := end(ctx); err != nil {
		return 0, err
	}
	after := sides.Ask(ctx, list, 0)
	return after.Items, after.Err
}
