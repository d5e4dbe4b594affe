//go:build linux && !race

// Not under the race detector: a tenth of the operations in the same time find little.

package faultlab

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

var (
	seed       = flag.Uint64("seed", 1, "the first seed")
	seeds      = flag.Int("seeds", 1, "how many seeds, one after the other")
	operations = flag.Int("operations", 6_000, "operations of all seeds together")
)

func TestMain(m *testing.M) {
	etcdlab.MaybeMember()
	os.Exit(m.Run())
}

func rvfloor(cachedGets bool) sides.Kind {
	return func() (generic.StorageDecorator, func() error, error) {
		backends, err := apiserver.New(apiserver.Config{
			CachedGets: cachedGets, SentinelKey: new(SentinelKey), Pulse: Pulse, Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			return nil, nil, err
		}
		return backends.StorageDecorator(), backends.Close, nil
	}
}

// direct is a server that asks no cache, and is fair between its users.
func direct() sides.Kind {
	return sides.With(apiserver.Config{
		Strategy: decorator.StrategyDirect, SentinelKey: new(SentinelKey), Pulse: Pulse, Registerer: prometheus.NewRegistry(),
	})
}

func stock(bool) sides.Kind { return sides.Stock }

func run(t *testing.T, cfg Config) *Result {
	t.Helper()
	t.Logf("seed %d", cfg.Seed)
	result, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d operations in %v (%.0f a second); watches brought %d events and %d bookmarks; deadlines %+v; fresh %v after a freeze; healed within %v",
		result.Operations, result.Took, float64(result.Operations)/result.Took.Seconds(), result.Events, result.Bookmarks, result.Deadlines, result.Fresh, result.Healed)
	for _, p := range result.Phases {
		t.Logf("%-40s %+v", p.Name, p)
	}
	return result
}

// judge fails the test for what was answered wrong, and for what did not happen.
func judge(t *testing.T, result *Result, operations int) {
	t.Helper()
	if err := result.Reports[""].Err(); err != nil {
		t.Error(err)
	}
	judgeSealed(t, result)
	for _, p := range result.Phases {
		if p.Name == crowding && p.Refused > 0 {
			t.Errorf("%d LISTs and GETs were refused while another user listed without end", p.Refused)
		}
	}
	if result.Operations < operations {
		t.Errorf("%d operations of %d", result.Operations, operations)
	}
	if result.Events == 0 || result.Bookmarks == 0 {
		t.Errorf("watches brought %d events and %d bookmarks", result.Events, result.Bookmarks)
	}
	if result.Fresh == 0 {
		t.Errorf("no answer within %v of a freeze from the server that knows all members", freshTimeout)
	}
}

// judgeSealed fails the test for what was answered wrong of the resource that cannot always
// be read. Its reads may fail.
func judgeSealed(t *testing.T, result *Result) {
	t.Helper()
	for _, v := range result.Sealed.Violations {
		t.Errorf("of the resource that cannot always be read: %s (one of %d): %s", v.Kind, result.Sealed.Counts[v.Kind], v.Text)
	}
	for _, p := range result.Sealed.Phases {
		if p.Name == "none" && 2*p.Answered < p.Reads {
			t.Errorf("of the resource that cannot always be read, %d of %d reads were answered while it could be", p.Answered, p.Reads)
		}
	}
}

func TestRVFloorIsLinearizable(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	total, checked, events, bookmarks := 0, 0, 0, 0
	var overrun time.Duration
	var deadlines Deadlines
	for i := range *seeds {
		result := run(t, Config{Seed: *seed + uint64(i), Operations: *operations / *seeds, Server: rvfloor, Direct: direct()})
		judge(t, result, *operations / *seeds)
		total += result.Operations
		checked += result.Reports[""].Operations
		events, bookmarks = events+result.Events, bookmarks+result.Bookmarks
		for _, p := range result.Phases {
			overrun = max(overrun, p.Overrun)
		}
		deadlines.Reached += result.Deadlines.Reached
		deadlines.Missed += result.Deadlines.Missed
		deadlines.Allowed = max(deadlines.Allowed, result.Deadlines.Allowed)
	}
	t.Logf("%d seeds: %d operations, %d checked; watches brought %d events and %d bookmarks; deadlines %+v, outlived by %v at most",
		*seeds, total, checked, events, bookmarks, deadlines, overrun)
	if deadlines.Reached == 0 {
		t.Error("no deadline was reached: nothing is known of how they are kept")
	}
	// 99 %, and one more where that is less than one.
	if deadlines.Missed > 1+deadlines.Reached/100 {
		t.Errorf("%d of %d deadlines were not kept", deadlines.Missed, deadlines.Reached)
	}
	goleak.VerifyNone(t, leaks)
}

// TestStockIsNot is the control: the lab sees what it is to see. Not each run has all of
// it, so it may take a few.
func TestStockIsNot(t *testing.T) {
	missing := map[reading][]linear.Kind{
		ListZero:    {linear.BelowAcknowledged},
		GetZero:     {linear.BelowAcknowledged},
		LegacyWatch: {linear.BelowAcknowledged},
		// A lease that ended, in part: as an older version where the same pods came again.
		List: {linear.Torn, linear.Missing, linear.OldVersion},
		// What was, until it is written again.
		WatchList: {linear.BeforeRestore},
	}
	tooOld, sealedOld := 0, 0
	for i := 0; len(missing) > 0 && i < 4; i++ {
		result := run(t, Config{Seed: *seed + uint64(i), Operations: 4_000, Server: stock, Apart: true})
		for _, kind := range readings {
			counts := result.Reports[string(kind)].Counts
			t.Logf("%-14s %v", kind, counts)
			if slices.ContainsFunc(missing[kind], func(want linear.Kind) bool { return counts[want] > 0 }) {
				delete(missing, kind)
			}
		}
		for _, p := range result.Phases {
			tooOld += p.TooOld
		}
		sealedOld += result.Sealed.Counts[linear.BelowAcknowledged]
	}
	if len(missing) > 0 {
		t.Errorf("not found with the stock server: %v", missing)
	}
	if sealedOld == 0 {
		t.Error("of the resource that cannot always be read nothing is too old")
	}
	if tooOld == 0 {
		t.Error("the tally has nothing that is too old")
	}
}
