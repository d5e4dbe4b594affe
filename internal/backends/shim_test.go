package backends_test

import (
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
}

var etcd, foundationDB = fdbshim.Config{LikeEtcd: true}, fdbshim.Config{}

// safe are the modes over which all that is promised holds.
var safe = []mode{
	{"LikeEtcd", etcd, fdbshim.Faults{}, decorator.StrategyRequest},
	{"FoundationDB", foundationDB, fdbshim.Faults{}, decorator.StrategyNudge},
	{"NoProgress", foundationDB, fdbshim.Faults{NoProgress: true}, decorator.StrategyRangeProof},
	{"NoProgressNoFilters", etcd, fdbshim.Faults{NoProgress: true, NoFilters: true}, decorator.StrategyDirect},
	{"ProgressUnimplemented", etcd, fdbshim.Faults{ProgressUnimplemented: true}, decorator.StrategyRangeProof},
	{"ProgressAheadOfCatchUp", etcd, fdbshim.Faults{ProgressAheadOfCatchUp: true}, decorator.StrategyRangeProof},
	{"ProgressAheadOfLive", foundationDB, fdbshim.Faults{ProgressAheadOfLive: true}, decorator.StrategyRangeProof},
	{"ProgressBack", etcd, fdbshim.Faults{ProgressBack: true}, decorator.StrategyRequest},
	{"ProgressBackFoundationDB", foundationDB, fdbshim.Faults{ProgressBack: true}, decorator.StrategyNudge},
	{"CreatedZero", etcd, fdbshim.Faults{CreatedZero: true}, decorator.StrategyRequest},
	{"WatchesLag", foundationDB, fdbshim.Faults{WatchesLag: true}, decorator.StrategyNudge},
	{"MissingLags", etcd, fdbshim.Faults{MissingLags: true}, decorator.StrategyRequest},
	{"NoFilters", etcd, fdbshim.Faults{NoFilters: true}, decorator.StrategyRequest},
	{"NoSerializable", etcd, fdbshim.Faults{NoSerializable: true}, decorator.StrategyRequest},
	{"OneWatchPerStream", foundationDB, fdbshim.Faults{OneWatchPerStream: true}, decorator.StrategyNudge},
}

// eachSafe runs a test over each safe mode.
func eachSafe(t *testing.T, test func(t *testing.T, m mode)) {
	for _, m := range safe {
		t.Run(m.name, func(t *testing.T) { test(t, m) })
	}
}

// TestPromise runs the conformance suite.
func TestPromise(t *testing.T) {
	eachSafe(t, func(t *testing.T, m mode) {
		decoratortest.Run(t, func(t *testing.T) decoratortest.Harness { return newHarness(t, m) })
	})
}

// TestLinear lets clients of two API servers, each over a process of its own, read
// and write.
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
	report, err := backends.Run(t.Context(), backends.Config{Stores: stores, Client: connect(t, serve(t, database, fdbshim.Faults{})), Operations: 600,
		PassesOver: m.strategy == decorator.StrategyRangeProof})
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
