package main

import (
	"bytes"
	"errors"
	"slices"
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

// TestOrder: each side takes part once in a round, and follows each other about as
// often: who always follows stock would always find a machine that has slept.
func TestOrder(t *testing.T) {
	b := &bench{sides: make([]*side, 4)}
	const rounds = 600
	follows := map[[2]int]int{}
	for round := range rounds {
		order := b.order(round)
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3}) {
			t.Fatalf("round %d: %v", round, order)
		}
		for i := range order[1:] {
			follows[[2]int{order[i], order[i+1]}]++
		}
	}
	// Three of the four places have one before them, and there are twelve pairs.
	const even = rounds * 3 / 12
	for pair, times := range follows {
		if times < even*2/3 || times > even*4/3 {
			t.Errorf("%v came %d times, want about %d", pair, times, even)
		}
	}
	if len(follows) != 12 {
		t.Errorf("%d pairs came, want 12", len(follows))
	}
}
