package decorator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var verdicts = []Verdict{VerdictUnsure, VerdictYes, VerdictNo}

// sane is a backend of which all is good, as etcd.
var sane = Properties{LinearizableFloor: "yes", OneRevisionSpace: "yes", ProgressAnswered: "yes", ProgressOrdered: "yes",
	ProgressReaches: "yes", WritesMoveProgress: "yes", FiltersWork: "yes", ProgressMonotonic: "yes", EveryEventDelivered: "yes", CreatedRevision: "yes"}

// TestChooseBackends: what the known backends get.
func TestChooseBackends(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Properties)
		want   string // of the sound strategies; or part of the error, after "!"
	}{
		"etcd":                              {func(p *Properties) {}, "request nudge range-proof direct"},
		"kine on SQLite":                    {func(p *Properties) { p.FiltersWork, p.ProgressMonotonic = "no", "no" }, "request nudge direct"},
		"kine on PostgreSQL":                {func(p *Properties) { p.FiltersWork, p.ProgressReaches = "no", "no" }, "nudge direct"},
		"kine on PostgreSQL, by luck":       {func(p *Properties) { p.FiltersWork, p.ProgressReaches = "no", "" }, "nudge direct"},
		"a version that runs on":            {func(p *Properties) { p.ProgressReaches = "no" }, "nudge range-proof direct"},
		"etcd 3.4.23: progress overtakes":   {func(p *Properties) { p.ProgressOrdered = "no" }, "range-proof direct"},
		"no progress":                       {func(p *Properties) { p.ProgressAnswered = "no" }, "range-proof direct"},
		"no progress, no filters":           {func(p *Properties) { p.ProgressAnswered, p.FiltersWork = "no", "no" }, "direct"},
		"nothing moves it":                  {func(p *Properties) { p.ProgressReaches, p.WritesMoveProgress = "no", "no" }, "range-proof direct"},
		"kine on NATS":                      {func(p *Properties) { p.LinearizableFloor = "no" }, "!acknowledged"},
		"a counter for each resource":       {func(p *Properties) { p.OneRevisionSpace = "no" }, "!Backend of its own"},
		"a floor that nobody could look at": {func(p *Properties) { p.LinearizableFloor = "" }, "direct"},
		"nothing known":                     {func(p *Properties) { *p = Properties{} }, "direct"},
		"events are lost":                   {func(p *Properties) { p.EveryEventDelivered = "no" }, "direct"},
	} {
		p := sane
		test.change(&p)
		got, reason, err := p.Choose()
		if part, refused := strings.CutPrefix(test.want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), part) || got != nil {
				t.Errorf("%s: got %v, %v, want an error with %q", name, got, err, part)
			}
			continue
		}
		if words := strings.Trim(fmt.Sprint(got), "[]"); err != nil || words != test.want || reason == "" {
			t.Errorf("%s: got %q (%q), %v, want %q", name, words, reason, err, test.want)
		}
	}
}

// TestChooseEveryCombination: of the eight properties that decide, with each set of
// possible strategies, no strategy is called sound that lacks what it stands on, and none
// that has it is left out.
func TestChooseEveryCombination(t *testing.T) {
	order := []Strategy{StrategyRequest, StrategyNudge, StrategyRangeProof, StrategyWrite, StrategyDirect}
	var p Properties
	needs := map[Strategy][]*Verdict{
		StrategyRequest:    {&p.ProgressAnswered, &p.ProgressOrdered, &p.ProgressReaches},
		StrategyNudge:      {&p.ProgressAnswered, &p.ProgressOrdered, &p.WritesMoveProgress},
		StrategyRangeProof: {&p.FiltersWork},
	}
	all := []*Verdict{&p.LinearizableFloor, &p.OneRevisionSpace, &p.ProgressAnswered, &p.ProgressOrdered, &p.ProgressReaches, &p.WritesMoveProgress, &p.FiltersWork, &p.EveryEventDelivered}
	yes := func(v *Verdict) bool { return *v == VerdictYes }
	for n := range 3 * 3 * 3 * 3 * 3 * 3 * 3 * 3 {
		for i, rest := 0, n; i < len(all); i, rest = i+1, rest/3 {
			*all[i] = verdicts[rest%3]
		}
		for set := 1; set < 1<<len(order); set++ {
			var possible, want []Strategy
			for i, s := range order {
				if set>>i&1 == 0 {
					continue
				}
				possible = append(possible, s)
				if (s == StrategyDirect || yes(&p.LinearizableFloor) && yes(&p.OneRevisionSpace) && p.EveryEventDelivered != VerdictNo) && p.LinearizableFloor != VerdictNo && p.OneRevisionSpace != VerdictNo && !slices.ContainsFunc(needs[s], func(v *Verdict) bool { return !yes(v) }) {
					want = append(want, s)
				}
			}
			got, reason, err := p.Choose(possible...)
			if !slices.Equal(got, want) || (err == nil) != (len(want) > 0) || (reason != "") != (len(want) > 0) {
				t.Fatalf("%+v of %v: got %v (%q), %v, want %v", p, possible, got, reason, err, want)
			}
		}
	}
}

// TestPropertyNames: all fields are listed, under names that say which, and JSON says what
// is unsure.
func TestPropertyNames(t *testing.T) {
	text, err := json.Marshal(Properties{LinearizableFloor: VerdictYes})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]string
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	all := Properties{LinearizableFloor: VerdictYes}.All()
	if len(all) != len(fields) {
		t.Errorf("%d properties are listed and there are %d", len(all), len(fields))
	}
	for _, property := range all {
		name := strings.ReplaceAll(property.Name, "_", "")
		for field, verdict := range fields {
			if strings.EqualFold(field, name) && verdict == property.Verdict.String() {
				name = ""
			}
		}
		if name != "" {
			t.Errorf("%s is %s, and not in %s", property.Name, property.Verdict, text)
		}
	}
	var back Properties
	if err := json.Unmarshal(text, &back); err != nil || back != (Properties{LinearizableFloor: VerdictYes}) {
		t.Errorf("got %+v, %v back", back, err)
	}
}
