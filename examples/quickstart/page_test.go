package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// widest are results with the longest texts and figures to be expected.
func widest(seen bool) []result {
	const (
		long     = 4 * time.Second
		tooLarge = "Timeout: Too large resource version: 1001000, current: 1000000"
		notFresh = "Timeout: rvfloor: the watch cache did not become fresh in time: it is at 1000000 and 1000001 was asked for: " +
			"the longest wait for a fresh cache is over: context deadline exceeded"
	)
	elsewhere := figures{took("p50", "p50", 999*time.Millisecond), took("p99", "p99", long), count("stale", "stale", 50)}
	stormed := stormed{total: long, stale: 5000}
	stormed.Ranges, stormed.Progress = 15000, 15000
	leases := figures{count("lists_with_deleted", "LISTs that show deleted pods", 20), count("most_deleted", "pods shown at most", 500)}
	late := figures{took("returned", "", long)}
	rows := [][]row{
		{{Side: nameStock, Figures: elsewhere}, {Side: nameRVFloor, Figures: elsewhere}, {Side: "stock RV=0", Figures: elsewhere}},
		{stormed.row(nameStock), stormed.row(nameRVFloor)},
		{{Side: nameStock, Figures: leases}, {Side: nameRVFloor, Figures: leases}},
		{{Side: nameStock, Figures: late, Error: tooLarge}, {Side: nameRVFloor, Figures: late, Error: tooLarge}},
		{{Side: nameStock, Figures: late, Error: "context deadline exceeded"}, {Side: nameRVFloor, Figures: late, Error: notFresh}},
	}
	var results []result
	for i, s := range scenes(fullSizes) {
		results = append(results, result{
			Name: s.name, Title: s.title, Claim: s.claim, Seen: seen, Rows: rows[i],
			Verdict: "as fresh as stock and 10,000 times sooner; RV=0 is quick, and stale",
		})
	}
	return results
}

// show writes the whole page.
func show(p *page, results []result) {
	p.head(128)
	for i, r := range results {
		p.scene(i+1, r.Title)
		p.status("stock: LIST 12 of 50")
		p.result(r)
	}
	p.status("closing both storages and etcd")
	p.status("")
	p.foot()
}

// expectPage checks that lines fit into 80 columns and 40 lines.
func expectPage(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > 40 {
		t.Errorf("%d lines, want at most 40:\n%s", len(lines), text)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns, want at most 80: %s", n, line)
		}
	}
}

func TestPageFits(t *testing.T) {
	for _, seen := range []bool{true, false} {
		var plain, fancy bytes.Buffer
		show(&page{w: &plain}, widest(seen))
		expectPage(t, plain.String())
		if strings.ContainsAny(plain.String(), "\x1b\r") {
			t.Errorf("control characters on a plain page: %q", plain.String())
		}
		if strings.Contains(plain.String(), "NOT AS CLAIMED") == seen {
			t.Errorf("the page of what was seen, %v:\n%s", seen, plain.String())
		}
		// What a terminal shows in the end is the plain page.
		show(&page{w: &fancy, live: true, color: true}, widest(seen))
		if !strings.Contains(fancy.String(), "\r\x1b[K   ... stock: LIST 12 of 50\r\x1b[K") {
			t.Errorf("the live line does not come and go: %q", fancy.String())
		}
		if got := onTerminal(fancy.String()); got != plain.String() {
			t.Errorf("a terminal shows:\n%s\nwant:\n%s", got, plain.String())
		}
	}
}

// onTerminal is what stays of a text: without styles, and without what a line held
// before it was cleared.
func onTerminal(text string) string {
	text = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, "")
	return regexp.MustCompile("[^\n]*\r\x1b\\[K").ReplaceAllString(text, "")
}

func TestTabled(t *testing.T) {
	got := strings.Join(tabled([]row{
		{Side: "a", Figures: figures{took("x", "p50", 98*time.Millisecond), count("y", "old", 5000)}},
		{Side: "bcd", Figures: figures{took("x", "p50", 500*time.Microsecond), count("y", "old", 0)}, Error: strings.Repeat("word ", 12)},
	}), "\n")
	want := `
a    p50 98.0 ms  old 5,000
bcd  p50 0.50 ms  old     0  word word word word word word word word word
                             word word word`
	if "\n"+got != want {
		t.Errorf("got:\n%s\nwant:%s", got, want)
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		70 * time.Microsecond: "0.07 ms", 98123 * time.Microsecond: "98.1 ms", 620 * time.Millisecond: "620 ms", 3004 * time.Millisecond: "3.00 s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 5008: "5,008", 1000000: "1,000,000"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	if got := times(3*time.Second, time.Second) + ", " + times(3*time.Second, 2*time.Millisecond); got != "3.0 times, 1,500 times" {
		t.Error(got)
	}
	if got := strings.Join(wrapped("one two abcdefghijkl x", 7), "|"); got != "one two|abcdefg|hijkl x" {
		t.Errorf("wrapped: %q", got)
	}
}
