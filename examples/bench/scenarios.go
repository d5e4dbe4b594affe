package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// The sides, by the names that the report gives them.
const (
	nameEtcdGet    = "etcd-get"
	nameUnverified = "unverified"
	nameStock      = "stock"
	nameRVFloor    = "rvfloor"
)

// scenario is what is measured.
type scenario struct {
	name string
	// n is the number of calls of each side in a run, unless --n says otherwise.
	n int
	// at is the part of a run that sides are compared by: the median call, or the
	// time to the last answer.
	at    func(outcome) float64
	sides []sideSpec
	// run is one run of all sides, in the order of sides.
	run func(ctx context.Context, b *bench, n int) ([]outcome, error)
	// warmUp is the n of the run before the first, which is not counted.
	warmUp func(n int) int
	// ratios are what the report compares.
	ratios []ratio
	// fill writes what there is beside the pods of each scenario; nil: nothing.
	fill func(ctx context.Context, l *sides.Lab, n int) error
	// costs are what a run measures one by one; the report compares rvfloor's with stock's.
	costs []string
}

// ratio is one side against the sum of others.
type ratio struct {
	name string
	of   string
	to   []string
}

const (
	stormCalls     = 5000
	elsewhereCalls = 400
	// elsewhereWarmUp is enough for both caches and for rvfloor to have learned
	// whether a progress request beside the floor read pays.
	elsewhereWarmUp = 30
)

var scenarios = []scenario{
	{
		name: "elsewhere", n: elsewhereCalls, at: medianCall, run: elsewhere,
		warmUp: func(n int) int { return min(n, elsewhereWarmUp) },
		sides: []sideSpec{
			{name: nameEtcdGet, fresh: true, items: 1, open: etcdGet},
			{name: nameUnverified, items: sides.Pods, open: cached(sides.Stock, listPods("0"))},
			{name: nameStock, fresh: true, items: sides.Pods, open: cached(sides.Stock, listPods(""))},
			{name: nameRVFloor, fresh: true, items: sides.Pods, open: cached(sides.RVFloor, listPods(""))},
		},
		ratios: []ratio{
			{"rvfloor/limit", nameRVFloor, []string{nameEtcdGet, nameUnverified}},
			{"stock/limit", nameStock, []string{nameEtcdGet, nameUnverified}},
		},
	},
	{
		name: "storm", n: stormCalls, at: lastAnswer, run: storms(listChecks), warmUp: all,
		sides: []sideSpec{
			{name: nameUnverified, items: sides.Pods, open: cached(sides.Stock, listPods("0"))},
			{name: nameStock, fresh: true, items: sides.Pods, open: cached(sides.Stock, listPods(""))},
			{name: nameRVFloor, fresh: true, items: sides.Pods, open: cached(sides.RVFloor, listPods(""))},
		},
		ratios: []ratio{
			{"rvfloor/unverified", nameRVFloor, []string{nameUnverified}},
			{"stock/unverified", nameStock, []string{nameUnverified}},
		},
	},
	{
		name: "zero", n: stormCalls, at: lastAnswer, run: storms(listChecks), warmUp: all,
		sides: []sideSpec{
			{name: nameStock, items: sides.Pods, open: cached(sides.Stock, listPods("0"))},
			{name: nameRVFloor, fresh: true, items: sides.Pods, open: cached(sides.RVFloor, listPods("0"))},
		},
		ratios: []ratio{{"rvfloor/unverified", nameRVFloor, []string{nameStock}}},
	},
	{
		name: "watch", n: stormCalls, at: lastAnswer, run: storms(watchChecks), warmUp: all,
		sides: []sideSpec{
			{name: nameStock, items: sides.Pods, open: cached(sides.Stock, watchPods)},
			{name: nameRVFloor, fresh: true, items: sides.Pods, open: cached(sides.RVFloor, watchPods)},
		},
		ratios: []ratio{{"rvfloor/unverified", nameRVFloor, []string{nameStock}}},
	},
	{
		name: "informers", n: informersObjects, at: lastAnswer, run: informers, warmUp: all,
		fill: fillInformers, costs: informersCosts,
		sides: []sideSpec{
			{name: nameStock, fresh: true, open: served(sides.Stock)},
			{name: nameRVFloor, fresh: true, open: served(sides.RVFloor)},
		},
	},
}

func all(n int) int { return n }

// items is how many objects an answer holds.
func (s *scenario) items(n int) int {
	if s.fill != nil {
		return n
	}
	return sides.Pods
}

func scenarioNames() []string {
	names := make([]string, len(scenarios))
	for i := range scenarios {
		names[i] = scenarios[i].name
	}
	return names
}

// scenarioNamed is nil for a name that there is not.
func scenarioNamed(name string) *scenario {
	for i := range scenarios {
		if scenarios[i].name == name {
			return &scenarios[i]
		}
	}
	return nil
}

// bench is a scenario with its lab and its sides open.
type bench struct {
	*scenario
	lab   *sides.Lab
	sides []*side
	turn  int // which side goes first; moves on with each run
	log   io.Writer

	goroutines int // of the process, when all sides were open
}

// measure opens a scenario, runs it and closes it again.
func measure(ctx context.Context, s *scenario, n, runs int, log io.Writer) (result *report, err error) {
	l, err := sides.Start(ctx, len(s.sides), nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Fill(ctx); err != nil {
		return nil, err
	}
	if s.fill != nil {
		if err := s.fill(ctx, l, n); err != nil {
			return nil, err
		}
	}
	opened, err := openSides(ctx, l, s.sides)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeSides(opened)) }()

	b := &bench{scenario: s, lab: l, sides: opened, log: log, goroutines: runtime.NumGoroutine()}
	if err := b.warm(ctx, n); err != nil {
		return nil, err
	}
	outcomes := make([][]outcome, runs) // by run, then by side
	for i := range outcomes {
		if outcomes[i], err = b.run(ctx, b, n); err != nil {
			return nil, err
		}
		b.turn++
		b.tell(fmt.Sprintf("run %d of %d", i+1, runs), outcomes[i])
	}
	b.tellAhead()
	return newReport(s, n, outcomes), nil
}

func (b *bench) warm(ctx context.Context, n int) error {
	outcomes, err := b.run(ctx, b, b.warmUp(n))
	if err != nil {
		return err
	}
	b.tell("warm-up", outcomes)
	return nil
}

// order is the indexes of the sides, in the order in which they take part in a
// round: shuffled, the same in every process. Turns would let each side follow the
// same other always, and who follows stock finds a machine that has slept for 97 ms.
func (b *bench) order(round int) []int {
	return rand.New(rand.NewPCG(uint64(b.turn), uint64(round))).Perm(len(b.sides))
}
