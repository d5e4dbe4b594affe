package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// timeline shows what happens, with a column for each side.
type timeline struct {
	w     io.Writer
	began time.Time
}

func newTimeline(w io.Writer, title string) *timeline {
	t := &timeline{w: w}
	t.printf("\n%s\n\n", title)
	t.line("", "", sideNames[stock], sideNames[rvfloor])
	return t
}

// failed shows why a side answered with an error, if it did.
func (t *timeline) failed(side string, err error) {
	if err != nil {
		t.line("", fmt.Sprintf("  %s: %v", side, err), "", "")
	}
}

// event is what happens to both sides.
func (t *timeline) event(what string) { t.row(what, "", "") }

// row is what each side answers to an event.
func (t *timeline) row(event, stock, rvfloor string) {
	if t.began.IsZero() {
		t.began = time.Now() // the first event: starting etcd is no part of the story
	}
	t.line(fmt.Sprintf("%.1f s", time.Since(t.began).Seconds()), event, stock, rvfloor)
}

func (t *timeline) line(cells ...any) {
	t.printf("%s\n", strings.TrimRight(fmt.Sprintf("%8s  %-41s  %-18s  %s", cells...), " "))
}

func (t *timeline) end(verdict string) { t.printf("   => %s\n", verdict) }

// printf does not say when it fails: who reads the timeline sees that, and nobody
// else could do anything about it.
func (t *timeline) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }
