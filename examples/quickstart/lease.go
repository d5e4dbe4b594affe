package main

import (
	"context"
	"fmt"
	"time"

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
	if err := awaitAll(ctx, list); err != nil {
		return 0, err
	}
	if err := end(ctx); err != nil {
		return 0, err
	}
	after := sides.Ask(ctx, list, 0)
	return after.Items, after.Err
}

// fillTimeout is far above what a cache takes to learn of the pods.
const fillTimeout = 30 * time.Second

// awaitAll asks until all pods are there. One answer of stock may not hold them yet:
// it shows transactions in part, too.
func awaitAll(ctx context.Context, list sides.Call) error {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	for {
		if before := sides.Ask(ctx, list, 0); before.Err != nil || before.Items == leasedPods {
			return before.Err
		}
		if ctx.Err() != nil { // a cache answers from memory all the same
			return fmt.Errorf("not all pods were listed within %v", fillTimeout)
		}
	}
}
