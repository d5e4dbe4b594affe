package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string // in the error
	}{
		{"", []string{"--scenario", "elsewhere, storm, zero, watch, informers"}},
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
	for name, n := range map[string]int{"elsewhere": 400, "storm": 5000, "zero": 5000, "watch": 5000, "informers": 5000} {
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
	good := sides.Answer{Items: 100, Revision: 7}
	samples := []sides.Sample{
		{Took: 3 * time.Second, Answer: good, Acknowledged: 7},
		{Took: 1 * time.Second, Answer: good, Acknowledged: 8},
		{Took: 2 * time.Second, Answer: sides.Answer{Items: 99, Revision: 9}, Acknowledged: 7},
		{Took: 4 * time.Second, Err: errors.New("no answer"), Acknowledged: 7},
	}
	fresh := newOutcome(sideSpec{items: 100, fresh: true}, samples, sides.Counts{Ranges: 5})
	if fresh.errors != 3 || fresh.stale != 0 || fresh.counts.Ranges != 5 || fresh.firstError == nil {
		t.Errorf("a side that must be fresh: %+v", fresh)
	}
	unverified := newOutcome(sideSpec{items: 100}, samples, sides.Counts{})
	if unverified.errors != 2 || unverified.stale != 1 {
		t.Errorf("a side that need not be: %+v", unverified)
	}
	if fresh.p50 != 2*time.Second || fresh.p90 != 4*time.Second || sum(samples) != 10*time.Second || sides.Longest(samples) != 4*time.Second {
		t.Errorf("p50 %v, p90 %v, sum %v, longest %v", fresh.p50, fresh.p90, sum(samples), sides.Longest(samples))
	}
}

func TestMedian(t *testing.T) {
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
