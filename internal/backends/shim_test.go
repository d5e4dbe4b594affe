package backends_test

import (
	"flag"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/linear"
)

// mode is a kind of database, and what is wrong with its processes.
type mode struct {
	name   string
	suite  bool // the conformance suite is run by default
	config fdbshim.Config
	faults fdbshim.Faults
}

var etcd = fdbshim.Config{LikeEtcd: true}

// safe are the modes over which all that is promised holds.
var safe = []mode{
	{"LikeEtcd", true, etcd, fdbshim.Faults{}},
	{"ProgressBack", false, etcd, fdbshim.Faults{ProgressBack: true}},
	{"CreatedZero", false, etcd, fdbshim.Faults{CreatedZero: true}},
	{"WatchesLag", false, etcd, fdbshim.Faults{WatchesLag: true}},
	{"MissingLags", false, etcd, fdbshim.Faults{MissingLags: true}},
	{"NoFilters", false, etcd, fdbshim.Faults{NoFilters: true}},
	{"NoSerializable", false, etcd, fdbshim.Faults{NoSerializable: true}},
	{"OneWatchPerStream", false, etcd, fdbshim.Faults{OneWatchPerStream: true}},
}

var all = flag.Bool("all", false, "run the conformance suite over every safe mode, not only over those that want a strategy of their own")

// TestPromise runs the conformance suite.
func TestPromise(t *testing.T) {
	for _, m := range safe {
		t.Run(m.name, func(t *testing.T) {
			if !m.suite && !*all {
				t.Skip("not without -all")
			}
			decoratortest.Run(t, func(t *testing.T) decoratortest.Harness { return newHarness(t, m) })
		})
	}
}

// TestLinear lets clients of two API servers, each over a process of its own, read
// and write.
func TestLinear(t *testing.T) {
	for _, m := range safe {
		t.Run(m.name, func(t *testing.T) {
			if err := run(t, m).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func run(t *testing.T, m mode) *linear.Report {
	t.Helper()
	database := newStore(t, m.config)
	var stores []storage.Interface
	for range 2 {
		stores = append(stores, open(t, decorated(nil), serve(t, database, m.faults)))
	}
	report, err := backends.Run(t.Context(), backends.Config{Stores: stores, Client: connect(t, serve(t, database, fdbshim.Faults{})), Operations: 600})
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range report.Phases {
		t.Logf("%d of %d reads were answered", phase.Answered, phase.Reads)
	}
	return report
}
