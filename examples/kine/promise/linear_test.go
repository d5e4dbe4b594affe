package promise

import (
	"testing"
	"time"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
	"k8s.io/apiserver/pkg/storage"
)

// loadFor is how long clients work, at least.
const loadFor = 3 * time.Second

// TestLinear lets clients write to and read from two API servers, each over a kine where
// there are two, and checks each answer against kine's own history.
func TestLinear(t *testing.T) {
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		l := startLoad(t, k, open(t, k.rvfloor(), k.first()), open(t, k.rvfloor(), k.last()))
		time.Sleep(loadFor)
		l.finish(t)
		if l.reads.Load() == 0 {
			t.Error("no read was answered")
		}
	}, memory, sqlite, sqlites, postgres, postgreses,
		atLength(by(decorator.StrategyNudge, postgres)), atLength(by(decorator.StrategyNudge, postgreses)),
		atLength(by(decorator.StrategyDirect, postgres)), atLength(by(decorator.StrategyDirect, postgreses)))
}

// TestStockIsNot is the control of TestLinear: upstream's own answers at
// resourceVersion "0" are older than writes that were acknowledged before.
func TestStockIsNot(t *testing.T) {
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		var stores []storage.Interface
		for _, endpoint := range []string{k.first(), k.last()} {
			stores = append(stores, open(t, sides.Stock, endpoint))
		}
		l := startLoad(t, k, stores...)
		time.Sleep(loadFor)
		if report := l.check(t); report.Counts[linear.BelowAcknowledged] == 0 {
			t.Errorf("nothing is wrong with upstream's answers: %v", report.Counts)
		}
	}, sqlites)
}

// failing is a testing.TB that notes whether it was failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Error(...any) { f.failed = true }

// TestJudge: a violation is kine's only where it names what the raw client lacks.
func TestJudge(t *testing.T) {
	report := &linear.Report{Violations: []linear.Violation{{Kind: linear.LostWrite, Text: "server 0: create of /pods/n1/pod-1 [1s to 2s], revision 7"}},
		Counts: map[linear.Kind]int{linear.LostWrite: 1}}
	if report.Err() == nil {
		t.Fatal("the report says nothing")
	}
	for key, fails := range map[string]bool{"/pods/n1/pod-1": false, "/pods/n1/pod": true} {
		judged := &failing{TB: t}
		judge(judged, report, []event{{key: key}})
		if judged.failed != fails {
			t.Errorf("the raw client lacks %q: failed is %v", key, judged.failed)
		}
	}
	judged := &failing{TB: t}
	if judge(judged, report, nil); !judged.failed {
		t.Error("the raw client lacks nothing, and the test has not failed")
	}
}
