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
		k.judgeRewinds(t)
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

func (f *failing) Error(...any)          { f.failed = true }
func (f *failing) Errorf(string, ...any) { f.failed = true }

// TestJudge: a violation is kine's only where all that it says something of lacks a write in
// the raw client's history too.
func TestJudge(t *testing.T) {
	lost, other := "/pods/n1/pod-1", "/pods/n1/pod-2"
	for name, test := range map[string]struct {
		kind  linear.Kind
		keys  []string
		lost  []event
		fails bool
	}{
		"of the lost key":        {linear.LostWrite, []string{lost}, []event{{key: lost}}, false},
		"of another":             {linear.LostWrite, []string{other}, []event{{key: lost}}, true},
		"of both":                {linear.Missing, []string{lost, other}, []event{{key: lost}}, true},
		"of both, and both lost": {linear.Missing, []string{lost, other}, []event{{key: lost}, {key: other}}, false},
		"of no key":              {linear.BelowAcknowledged, nil, []event{{key: lost}}, true},
		"nothing is lost":        {linear.LostWrite, []string{lost}, nil, true},
		"in the future":          {linear.Future, []string{lost}, []event{{key: lost}}, true},
	} {
		report := &linear.Report{Violations: []linear.Violation{{Kind: test.kind, Keys: test.keys}}, Counts: map[linear.Kind]int{test.kind: 1},
			Phases: []linear.Phase{{Reads: 2, Answered: 2}}}
		judged := &failing{TB: t}
		if judge(judged, report, test.lost); judged.failed != test.fails {
			t.Errorf("%s: failed is %v", name, judged.failed)
		}
	}
	few := &linear.Report{Phases: []linear.Phase{{Reads: 3, Answered: 1}}}
	judged := &failing{TB: t}
	if judge(judged, few, []event{{key: lost}}); !judged.failed {
		t.Error("most reads were not answered, and that is not kine's")
	}
	many := &linear.Report{Counts: map[linear.Kind]int{linear.Missing: keep + 1}, Phases: []linear.Phase{{Reads: 2, Answered: 2}}}
	judged = &failing{TB: t}
	if judge(judged, many, nil); !judged.failed {
		t.Error("not all was looked at")
	}
}
