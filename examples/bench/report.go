package main

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what --json prints.
type report struct {
	Scenario string             `json:"scenario"`
	N        int                `json:"n"`
	Runs     int                `json:"runs"`
	Items    int                `json:"items"`
	Env      env                `json:"env"`
	Sides    map[string]figures `json:"sides"`
	// Ratios are of the medians in Sides; those of Costs are the medians of the runs'.
	Ratios map[string]float64 `json:"ratios"`

	order  []string // of the sides, in the table
	stale  map[string]int64
	ratios []string // their order
}

type env struct {
	Go    string `json:"go"`
	Cores int    `json:"cores"` // GOMAXPROCS
}

// figures are all runs of one side.
type figures struct {
	// P50, P90, P99 of the calls, and Total (elsewhere: the sum of all calls; else
	// the time to the last answer) are in seconds, each the median over the runs.
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Total float64 `json:"total"`
	// Ranges and Progress are requests to etcd and Connections the most that were
	// open at once, in the run that had the most.
	Ranges      int64 `json:"ranges"`
	Progress    int64 `json:"progress"`
	Connections int64 `json:"connections"`
	// Errors is the number of wrong answers in all runs.
	Errors int64 `json:"errors"`
	// Spread is the lowest and the highest of the runs' P50 (elsewhere) or Total, in
	// seconds.
	Spread [2]float64 `json:"spread"`
	// Costs are the parts of informers, in seconds, each the median over the runs, and
	// Flushes those of its HTTP responses in the run that had the most.
	Costs   map[string]float64 `json:"costs,omitempty"`
	Flushes int64              `json:"flushes,omitempty"`
}

// newReport sums up outcomes by run and side.
func newReport(s *scenario, n int, outcomes [][]outcome) *report {
	r := &report{
		Scenario: s.name, N: n, Runs: len(outcomes), Items: s.items(n),
		Env:   env{Go: runtime.Version(), Cores: runtime.GOMAXPROCS(0)},
		Sides: map[string]figures{}, Ratios: map[string]float64{}, stale: map[string]int64{},
	}
	compared := map[string]float64{}
	for i, spec := range s.sides {
		var runs []outcome
		for _, run := range outcomes {
			runs = append(runs, run[i])
			r.stale[spec.name] += run[i].stale
		}
		r.order = append(r.order, spec.name)
		r.Sides[spec.name] = newFigures(runs, s.at)
		compared[spec.name] = medianOf(runs, s.at)
	}
	for _, ratio := range s.ratios {
		var to float64
		for _, name := range ratio.to {
			to += compared[name]
		}
		r.ratios = append(r.ratios, ratio.name)
		r.Ratios[ratio.name] = compared[ratio.of] / to
	}
	for _, cost := range s.costs {
		var ratios []float64
		for _, run := range outcomes {
			if stock := costIn(run, nameStock, cost); stock > 0 {
				ratios = append(ratios, costIn(run, nameRVFloor, cost)/stock)
			}
		}
		if len(ratios) == 0 {
			continue // the CPU is not known on this system
		}
		name := "rvfloor/stock " + cost
		r.ratios = append(r.ratios, name)
		r.Ratios[name] = median(ratios)
	}
	return r
}

// costIn is what a side's cost was in a run.
func costIn(run []outcome, side, cost string) float64 {
	for _, o := range run {
		if o.name == side {
			return o.costs[cost].Seconds()
		}
	}
	return 0
}

func newFigures(runs []outcome, at func(outcome) float64) figures {
	f := figures{
		P50:   medianOf(runs, func(o outcome) float64 { return o.p50.Seconds() }),
		P90:   medianOf(runs, func(o outcome) float64 { return o.p90.Seconds() }),
		P99:   medianOf(runs, func(o outcome) float64 { return o.p99.Seconds() }),
		Total: medianOf(runs, func(o outcome) float64 { return o.total.Seconds() }),
	}
	values := each(runs, at)
	f.Spread = [2]float64{slices.Min(values), slices.Max(values)}
	for _, o := range runs {
		f.Ranges = max(f.Ranges, o.counts.Ranges)
		f.Progress = max(f.Progress, o.counts.Progress)
		f.Connections = max(f.Connections, o.counts.Connections)
		f.Errors += o.errors
		f.Flushes = max(f.Flushes, o.flushes)
	}
	for cost := range runs[0].costs {
		if f.Costs == nil {
			f.Costs = map[string]float64{}
		}
		f.Costs[cost] = medianOf(runs, func(o outcome) float64 { return o.costs[cost].Seconds() })
	}
	return f
}

func each(runs []outcome, of func(outcome) float64) []float64 {
	values := make([]float64, len(runs))
	for i, o := range runs {
		values[i] = of(o)
	}
	return values
}

func medianOf(runs []outcome, of func(outcome) float64) float64 { return median(each(runs, of)) }

// table writes the report for people.
func (r *report) table(w io.Writer) error {
	calls := fmt.Sprintf("%d calls", r.N)
	if r.Scenario == "informers" {
		watches, writes := fan(r.N)
		calls = fmt.Sprintf("%d watch-lists, and %d watches that see %d writes,", informersLists, watches, writes)
	}
	fmt.Fprintf(w, "%s: %s a run and side, %d runs, %d objects, %s on %d cores\n\n", r.Scenario, calls, r.Runs, r.Items, r.Env.Go, r.Env.Cores)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "side\tp50\tp90\tp99\ttotal\tranges\tprogress\tconnections\terrors\tstale\tspread\t")
	for _, name := range r.order {
		f := r.Sides[name]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s to %s\t\n", name,
			seconds(f.P50), seconds(f.P90), seconds(f.P99), seconds(f.Total),
			f.Ranges, f.Progress, f.Connections, f.Errors, r.stale[name], seconds(f.Spread[0]), seconds(f.Spread[1]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	lines := []string{""}
	for _, name := range r.ratios {
		lines = append(lines, fmt.Sprintf("%s  %.2f", name, r.Ratios[name]))
	}
	if r.Scenario == "elsewhere" {
		lines = append(lines, "limit = "+nameEtcdGet+" + "+nameUnverified)
	}
	for _, name := range r.order {
		if f := r.Sides[name]; f.Costs != nil {
			line := fmt.Sprintf("%s: %d flushes", name, f.Flushes)
			for _, cost := range slices.Sorted(maps.Keys(f.Costs)) {
				line += fmt.Sprintf(", %s %s", cost, seconds(f.Costs[cost]))
			}
			lines = append(lines, line)
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// seconds writes a time with three digits or so.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// tell writes a run to the log: who reads only the report sees neither how it
// came about nor what the first wrong answer was.
func (b *bench) tell(what string, outcomes []outcome) {
	for _, o := range outcomes {
		fmt.Fprintf(b.log, "%s: %-10s  p50 %s  p99 %s  total %s  ranges %d  progress %d  connections %d  errors %d  stale %d\n",
			what, o.name, seconds(o.p50.Seconds()), seconds(o.p99.Seconds()), seconds(o.total.Seconds()),
			o.counts.Ranges, o.counts.Progress, o.counts.Connections, o.errors, o.stale)
		if o.firstError != nil {
			fmt.Fprintf(b.log, "%s: %s: the first wrong answer: %v\n", what, o.name, o.firstError)
		}
	}
}
