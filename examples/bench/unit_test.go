package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string // in the error
	}{
		{"", []string{"--scenario", "elsewhere, storm, zero, watch"}},
		{"--scenario=else", []string{"--scenario", `"else"`, "elsewhere"}},
		{"--scenario=zero --n=-1", []string{"--n", "5000"}},
		{"--scenario=elsewhere --n=-1", []string{"--n", "400"}},
		{"--scenario=zero --runs=0", []string{"--runs", "5"}},
		{"--scenario=zero --n=many", []string{"-n", "many", "--help"}},
		{"--scenario=zero --colour", []string{"-colour", "--help"}},
		{"--scenario=zero fast", []string{`"fast"`, "--scenario=NAME"}},
	} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if err == nil {
			t.Errorf("%q: no error", c.args)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: no %s in %q", c.args, part, err)
			}
		}
		if stdout.Len() > 0 {
			t.Errorf("%q: on stdout: %s", c.args, stdout.String())
		}
	}
}

func TestDefaults(t *testing.T) {
	for name, n := range map[string]int{"elsewhere": 400, "storm": 5000, "zero": 5000, "watch": 5000} {
		var stderr bytes.Buffer
		o, err := parse([]string{"--scenario", name}, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		if o.n != n || o.runs != 5 || o.json || o.scenario.name != name {
			t.Errorf("%s: n %d, runs %d, json %v", name, o.n, o.runs, o.json)
		}
	}
}

func TestOutcome(t *testing.T) {
	good := answer{items: 100, revision: 7}
	samples := []sample{
		{took: 3 * time.Second, answer: good, acknowledged: 7},
		{took: 1 * time.Second, answer: good, acknowledged: 8},
		{took: 2 * time.Second, answer: answer{items: 99, revision: 9}, acknowledged: 7},
		{took: 4 * time.Second, err: errors.New("no answer"), acknowledged: 7},
	}
	fresh := newOutcome(sideSpec{items: 100, fresh: true}, samples, counts{ranges: 5})
	if fresh.errors != 3 || fresh.stale != 0 || fresh.counts.ranges != 5 || fresh.firstError == nil {
		t.Errorf("a side that must be fresh: %+v", fresh)
	}
	unverified := newOutcome(sideSpec{items: 100}, samples, counts{})
	if unverified.errors != 2 || unverified.stale != 1 {
		t.Errorf("a side that need not be: %+v", unverified)
	}
	if fresh.p50 != 2*time.Second || fresh.p90 != 4*time.Second || sum(samples) != 10*time.Second || longest(samples) != 4*time.Second {
		t.Errorf("p50 %v, p90 %v, sum %v, longest %v", fresh.p50, fresh.p90, sum(samples), longest(samples))
	}
}

func TestStats(t *testing.T) {
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for p, want := range map[float64]time.Duration{50: 100, 90: 180, 99: 198, 100: 200} {
		if got := percentile(sorted, p); got != want {
			t.Errorf("p%v of 1 to 200 is %d; want %d", p, got, want)
		}
	}
	if got := percentile(sorted[:1], 50); got != 1 {
		t.Errorf("the median of one value is %d", got)
	}
	if got := median([]float64{9, 1, 4}); got != 4 {
		t.Errorf("the median of 9, 1, 4 is %v", got)
	}
	if got := median([]float64{9, 1, 4, 2}); got != 3 {
		t.Errorf("the median of 9, 1, 4, 2 is %v", got)
	}
}

// TestOrder: each side goes first once in as many rounds as there are sides, and
// the first of a run differs from the run before.
func TestOrder(t *testing.T) {
	b := &bench{sides: make([]*side, 3)}
	for turn := range 3 {
		b.turn = turn
		first := map[int]bool{}
		for round := range 3 {
			order := b.order(round)
			first[order[0]] = true
			if seen := map[int]bool{order[0]: true, order[1]: true, order[2]: true}; len(seen) != 3 {
				t.Errorf("turn %d round %d: %v", turn, round, order)
			}
		}
		if len(first) != 3 || b.order(0)[0] != turn {
			t.Errorf("turn %d: first are %v, and %d", turn, first, b.order(0)[0])
		}
	}
}
