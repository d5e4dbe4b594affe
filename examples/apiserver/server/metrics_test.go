package server_test

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// families are all that rvfloor has, and the labels of a series that is there once
// something was read.
var families = map[string]string{
	"rvfloor_floor_reads_total":            `outcome="ok"`,
	"rvfloor_floor_read_duration_seconds":  `backend=`,
	"rvfloor_floor_read_callers":           `backend=`,
	"rvfloor_kicks_total":                  `resource="widgets"`,
	"rvfloor_nudges_total":                 `outcome="ok"`,
	"rvfloor_waiters":                      `resource="widgets"`,
	"rvfloor_reads_total":                  `resource="widgets",route="floor",verb="list"`,
	"rvfloor_wait_duration_seconds":        `resource="widgets",verb="list"`,
	"rvfloor_lag_revisions":                `resource="tickets"`,
	"rvfloor_last_fresh_timestamp_seconds": `resource="machines"`,
	"rvfloor_direct_lists_total":           `outcome="busy"`,
	"rvfloor_stream_reopens_total":         `reason=`,
	"rvfloor_bookmarks_dropped_total":      `resource="widgets"`,
	"rvfloor_rewinds_total":                `evidence=`,
	"rvfloor_breaches_total":               `resource="widgets"`,
	"rvfloor_panics_total":                 ` 0`,
	"rvfloor_backend_property":             `property="strategy",verdict="request"`,
}

// TestMetrics: after some reads /metrics has every family, and promtool finds
// nothing wrong with what rvfloor adds to it.
func TestMetrics(t *testing.T) {
	c := start(t, server.Options{})
	c.must(t, 201, post(widgets, object("Widget", "a", "", `{}`)))
	for _, path := range []string{widgets, widgets + "?resourceVersion=0", tickets, "/apis/plant.rvfloor.dev/v1alpha1/machines"} {
		c.must(t, 200, request{Method: "GET", Path: path})
	}
	res, err := c.send(t.Context(), request{Method: "GET", Path: "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var ours strings.Builder // upstream's are not ours to judge
	types := map[string]bool{}
	for line := range strings.Lines(string(all)) {
		name, isType := strings.CutPrefix(line, "# TYPE rvfloor_")
		if isType {
			name, _, _ = strings.Cut(name, " ")
			types["rvfloor_"+name] = true
		}
		if isType || strings.HasPrefix(line, "# HELP rvfloor_") || strings.HasPrefix(line, "rvfloor_") {
			ours.WriteString(line)
		}
	}
	for name, labels := range families {
		if !types[name] {
			t.Errorf("%s is not served", name)
		}
		if !hasSeries(ours.String(), name, labels) {
			t.Errorf("%s has no series with %s", name, labels)
		}
	}
	for name := range types {
		if _, known := families[name]; !known {
			t.Errorf("%s is served and not listed here", name)
		}
	}

	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool is not installed (Debian: apt-get install prometheus), so it did not check the metrics")
	}
	check := exec.CommandContext(t.Context(), tool, "check", "metrics")
	check.Stdin = strings.NewReader(ours.String())
	if out, err := check.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func hasSeries(served, name, labels string) bool {
	for line := range strings.Lines(served) {
		if strings.HasPrefix(line, name) && strings.Contains(line, labels) {
			return true
		}
	}
	return false
}
