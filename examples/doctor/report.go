package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
)

// diagnosis is the whole report.
type diagnosis struct {
	Endpoints []string `json:"endpoints"`
	// Claims are the versions that the members say they are. Nothing follows from them but
	// Warnings.
	Claims []string `json:"claims"`
	// Warnings are of faults that such versions are known for and a probe cannot see.
	Warnings []string `json:"warnings,omitempty"`
	// Safe is the exit status in a word.
	Safe decorator.Verdict `json:"safe"`
	probe.Report
}

func (d diagnosis) json(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}

const (
	width = 80
	// indent of what a property's lines say.
	indent = 30
)

// table prints the report for a terminal of 80 columns.
func (d diagnosis) table(out io.Writer) error {
	var b strings.Builder
	wrap(&b, "", 0, fmt.Sprintf("%s, by its own word version %s", strings.Join(d.Endpoints, ", "), strings.Join(d.Claims, ", ")))
	left := "deleted again"
	if d.Problem != "" {
		left = "as far as it got"
	}
	wrap(&b, "", 0, fmt.Sprintf("%d writes under %s, %s, in %.1f s", d.Writes, d.Prefix, left, d.TookMillis/1000))
	for _, f := range d.Findings {
		b.WriteByte('\n')
		wrap(&b, fmt.Sprintf("%-22s %s", f.Property, f.Verdict), indent, evidence(f))
		if f.Example != "" {
			wrap(&b, "", indent, "first: "+f.Example)
		}
		wrap(&b, "", indent, "-> "+f.Means)
		if f.Reproduce != "" {
			wrap(&b, "", indent, "reproduce: "+f.Reproduce)
		}
	}
	b.WriteByte('\n')
	if d.Problem != "" {
		wrap(&b, "problem", indent, d.Problem)
	}
	for _, warning := range d.Warnings {
		wrap(&b, "warning", indent, warning)
	}
	wrap(&b, "strategy", indent, d.strategy())
	wrap(&b, "verified reads", indent, map[decorator.Verdict]string{
		decorator.VerdictYes: "safe",
		decorator.VerdictNo:  "not safe",
	}[d.Safe])
	if d.Safe == decorator.VerdictUnsure {
		wrap(&b, "", indent, "could not be told: count on nothing")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (d diagnosis) strategy() string {
	if len(d.Strategies) == 0 {
		return "none: " + d.Reason
	}
	names := make([]string, len(d.Strategies))
	for i, s := range d.Strategies {
		names[i] = string(s)
	}
	return strings.Join(names, ", else ") + ": " + d.Reason
}

// evidence is what was seen, with how well it stands.
func evidence(f probe.Finding) string {
	text := f.Seen
	if f.LongestMillis > 0 {
		text += fmt.Sprintf("; median %.2g ms, longest %.2g ms", f.MedianMillis, f.LongestMillis)
	}
	if f.Missed > 0 {
		text += fmt.Sprintf("; a fault in 1 of 20 would be missed with %s", percent(f.Missed))
	}
	return text
}

func percent(p float64) string {
	switch {
	case p < 0.0001:
		return "less than 0.01 %"
	case p < 0.01:
		return fmt.Sprintf("%.2f %%", 100*p)
	}
	return fmt.Sprintf("%.0f %%", 100*p)
}

// wrap writes head, and text beside it from a column on, in lines as wide as the terminal.
// A word that is wider stays whole, so that it can be copied.
func wrap(b *strings.Builder, head string, column int, text string) {
	if text == "" {
		return
	}
	line := fmt.Sprintf("%-*s", column, head)
	empty := true
	for word := range strings.FieldsSeq(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(line + "\n")
			line, empty = strings.Repeat(" ", column), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(line + "\n")
}
