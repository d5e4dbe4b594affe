package faultlab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Table is what was answered under each fault, by column, in Markdown. All columns have
// the same faults.
func Table(columns []string, results []*Result) string {
	var b strings.Builder
	b.WriteString("| fault |")
	for _, column := range columns {
		fmt.Fprintf(&b, " %s: answered | stale or wrong | errors | worst overrun of a deadline |", column)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", 4*len(columns)) + "\n")
	for _, name := range append([]string{"none"}, faultNames()...) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, result := range results {
			row := result.row(name)
			fmt.Fprintf(&b, " %d | %s | %s | %s |", row.Answered, strong(row.wrong), errorsOf(row.Phase), overrun(row.Overrun))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func faultNames() (all []string) {
	for _, f := range faults {
		all = append(all, f.name)
	}
	return all
}

// row is one phase as the tally has it, and what the reports found wrong in it.
type row struct {
	Phase
	wrong int
}

func (r *Result) row(name string) (found row) {
	for _, p := range r.Phases {
		if p.Name == name {
			found.Phase = p
		}
	}
	for _, report := range append(slices.Collect(maps.Values(r.Reports)), r.Sealed) {
		for _, p := range report.Phases {
			if p.Name == name {
				found.wrong += p.Wrong
			}
		}
	}
	return found
}

func strong(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("**%d**", n)
}

func errorsOf(p Phase) string {
	if p.Failed == 0 {
		return "0"
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(p.Errors)) {
		kinds = append(kinds, fmt.Sprintf("%d × %s", p.Errors[kind], kind))
	}
	return strings.Join(kinds, ", ")
}

func overrun(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return d.Round(time.Millisecond).String()
}
