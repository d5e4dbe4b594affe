package apiserver

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rvfloor/rvfloor/decorator"
)

//go:embed debug.html
var debugHTML string

var debugTemplate = template.Must(template.New("debug").Funcs(template.FuncMap{
	"age":    func(t time.Time) string { return short(time.Since(t).Seconds()) + " ago" },
	"short":  short,
	"counts": counts,
	"waits":  waitChart,
	"batch":  batchChart,
}).Parse(debugHTML))

// writePage sends the page when it is whole, so that an error does not cut it.
func writePage(w io.Writer, s debugStatus, live bool) error {
	var page bytes.Buffer
	data := struct {
		debugStatus
		Live bool
		Now  string
	}{s, live, time.Now().UTC().Format("2006-01-02 15:04:05 MST")}
	if err := debugTemplate.Execute(&page, data); err != nil {
		return err
	}
	_, err := page.WriteTo(w)
	return err
}

// short is a time in seconds with two or three digits.
func short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	}
}

// counts is "12 ok, 1 no_floor", the frequent first.
func counts(by map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return cmp.Or(cmp.Compare(by[y], by[x]), cmp.Compare(x, y))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", by[name], name)
	}
	return strings.Join(names, ", ")
}

// chart has a bar for each interval, in a space of 100 by 100 that the highest fills.
type chart struct {
	Title, Top string
	Bars       []bar
}

// bar is as high as High; its lower part, up to Low, is drawn stronger.
type bar struct {
	X, Width  float64
	High, Low float64
	Tip       string
}

func waitChart(history []decorator.Interval) chart {
	c := newChart(history, func(i decorator.Interval) (high, low float64, tip string) {
		return i.MaxWaitSeconds, i.MeanWaitSeconds, fmt.Sprintf("%d reads waited %s, the longest %s", i.Waits, short(i.MeanWaitSeconds), short(i.MaxWaitSeconds))
	}, short)
	c.Title = "Wait until fresh, mean and longest"
	return c
}

func batchChart(history []decorator.Interval) chart {
	c := newChart(history, func(i decorator.Interval) (high, low float64, tip string) {
		mean := float64(i.Callers) / float64(max(1, i.FloorReads))
		return mean, mean, fmt.Sprintf("%d callers shared %d floor reads", i.Callers, i.FloorReads)
	}, func(top float64) string { return fmt.Sprintf("%.1f", top) })
	c.Title = "Batch size, callers that shared one floor read"
	return c
}

func newChart(history []decorator.Interval, of func(decorator.Interval) (high, low float64, tip string), text func(float64) string) chart {
	var top float64
	for _, i := range history {
		high, _, _ := of(i)
		top = max(top, high)
	}
	c := chart{Top: text(top)}
	if top == 0 {
		return c
	}
	slot := 100 / float64(len(history))
	for n, i := range history {
		high, low, tip := of(i)
		if high > 0 {
			c.Bars = append(c.Bars, bar{
				X: float64(n) * slot, Width: slot * .8, High: 100 * high / top, Low: 100 * low / top,
				Tip: i.Start.Format(time.TimeOnly) + ": " + tip,
			})
		}
	}
	return c
}
