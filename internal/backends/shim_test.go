package backends_test

import (
	"flag"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// mode is a kind of database, what is wrong with its processes, and the strategy that
// is sound then.
type mode struct {
	name     string
	config   fdbshim.Config
	faults   fdbshim.Faults
	strategy decorator.Strategy
	suite    bool // all tests are run by default
}

var etcd, foundationDB = fdbshim.Config{LikeEtcd: true}, fdbshim.Config{}

// safe are the modes over which all that is promised holds.
var safe = []mode{
	{"LikeEtcd", etcd, fdbshim.Faults{}, decorator.StrategyRequest, true},
	{"FoundationDB", foundationDB, fdbshim.Faults{}, decorator.StrategyNudge, true},
	{"NoProgress", foundationDB, fdbshim.Faults{NoProgress: true}, decorator.StrategyDirect, false},
	{"NoProgressNoFilters", etcd, fdbshim.Faults{NoProgress: true, NoFilters: true}, decorator.StrategyDirect, false},
	{"ProgressUnimplemented", etcd, fdbshim.Faults{ProgressUnimplemented: true}, decorator.StrategyDirect, false},
	{"ProgressAheadOfCatchUp", etcd, fdbshim.Faults{ProgressAheadOfCatchUp: true}, decorator.StrategyDirect, false},
	{"ProgressAheadOfLive", foundationDB, fdbshim.Faults{ProgressAheadOfLive: true}, decorator.StrategyDirect, false},
	{"ProgressBack", etcd, fdbshim.Faults{ProgressBack: true}, decorator.StrategyRequest, false},
	{"ProgressBackFoundationDB", foundationDB, fdbshim.Faults{ProgressBack: true}, decorator.StrategyNudge, false},
	{"CreatedZero", etcd, fdbshim.Faults{CreatedZero: true}, decorator.StrategyRequest, false},
	{"WatchesLag", foundationDB, fdbshim.Faults{WatchesLag: true}, decorator.StrategyNudge, false},
	{"MissingLags", etcd, fdbshim.Faults{MissingLags: true}, decorator.StrategyRequest, false},
	{"NoFilters", etcd, fdbshim.Faults{NoFilters: true}, decorator.StrategyRequest, false},
	{"NoSerializable", etcd, fdbshim.Faults{NoSerializable: true}, decorator.StrategyRequest, false},
	{"OneWatchPerStream", foundationDB, fdbshim.Faults{OneWatchPerStream: true}, decorator.StrategyNudge, false},
}

var all = flag.Bool("all", false, "run everything over every safe mode")

// eachSafe runs a test over each safe mode, or over those alone that are run by default.
func eachSafe(t *testing.T, test func(t *testing.T, m mode)) {
	for _, m := range safe {
		t.Run(m.name, func(t *testing.T) {
			if !m.suite && !*all {
				t.Skip("not without -all")
			}
			test(t, m)
		})
	}
}

// TestPromise runs the conformance suite.
func TestPromise(t *testing.T) {
	eachSafe(t, func(t *testing.T, m mode) {
		decoratortest.Run(t, func(t *testing.T) decoratortest.Harness { return newHarness(t, m) })
	})
}

// TestLinear lets clients of two API servers, each over a process of its own, read
// and write. See TestProbedLinear for the other modes.
func TestLinear(t *testing.T) {
	eachSafe(t, func(t *testing.T, m mode) { runLinear(t, m, decorated(m.strategy), decorated(m.strategy)) })
}

func runLinear(t *testing.T, m mode, kinds ...sides.Kind) {
	t.Helper()
	database := newStore(t, m.config)
	var stores []storage.Interface
	for _, kind := range kinds {
		stores = append(stores, open(t, kind, serve(t, database, m.faults)))
	}
	report, err := backends.Run(t.Context(), backends.Config{Stores: stores, Client: connect(t, serve(t, database, fdbshim.Faults{})), Operations: 600})
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range report.Phases {
		t.Logf("%d of %d reads were answered, of %d revisions", phase.Answered, phase.Reads, report.Revisions)
	}
	if report.Revisions < 20 {
		t.Errorf("there were %d revisions to tell apart", report.Revisions)
	}
	if m.faults.LoseEvents { // reads are right, and no decorator brings watches what the backend loses
		report.Violations = slices.DeleteFunc(report.Violations, func(v linear.Violation) bool { return v.Kind == linear.WatchGap })
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
}
