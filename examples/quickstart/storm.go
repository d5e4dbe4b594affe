package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// storm lets each side have two storms, one to warm up and the one that counts.
// Rvfloor comes first: stock leaves a goroutine behind for each LIST for three
// seconds, which must not wake up in the other's.
func storm(ctx context.Context, s *stage) (result, error) {
	idle := runtime.NumGoroutine()
	ours, err := s.storms(ctx, s.rvfloor, idle)
	if err != nil {
		return result{}, err
	}
	stock, err := s.storms(ctx, s.stock, idle)
	if err != nil {
		return result{}, err
	}
	n := int64(s.size.storm)
	return result{
		Rows:    []row{stock.row(nameStock), ours.row(nameRVFloor)},
		Seen:    stock.asked() >= n && ours.asked() < n/50 && stock.stale == 0 && ours.stale == 0,
		Verdict: fmt.Sprintf("%s requests reach etcd, and not %s", grouped(ours.asked()), grouped(stock.asked())),
	}, nil
}

// stormed is the storm of one side.
type stormed struct {
	total time.Duration // until the last answer
	sides.Counts
	stale int
}

// asked is how many requests reached etcd.
func (o stormed) asked() int64 { return o.Ranges + o.Progress }

func (o stormed) row(name string) row {
	return row{Side: name, Figures: figures{
		took("total", "", o.total),
		count("range_requests", "range requests", o.Ranges),
		count("progress_requests", "progress requests", o.Progress),
		count("stale", "stale", o.stale),
	}}
}

func (s *stage) storms(ctx context.Context, of side, idle int) (o stormed, err error) {
	call := sides.List(of.store, "", "")
	for _, n := range []int{s.size.stormWarmUp, s.size.storm} {
		s.status(fmt.Sprintf("%s: %s LISTs", of.name, grouped(n)))
		if err := sides.Settle(ctx, idle); err != nil {
			return o, err
		}
		var end func() sides.Counts
		samples, err := s.lab.Storm(ctx, n, call, func(w *sides.Writer) (func() uint64, error) {
			end = of.port.Measure()
			return w.Acknowledged.Load, nil
		})
		if err != nil {
			return o, err
		}
		o = stormed{total: sides.Longest(samples), Counts: end()}
		if o.stale, err = checked(of.name, samples); err != nil {
			return o, err
		}
	}
	return o, nil
}
