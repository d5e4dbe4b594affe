// Package monitoring holds the tests of what is in this folder.
package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rvfloor/rvfloor/metrics"
)

var (
	metric      = regexp.MustCompile(`[a-z_:]*rvfloor_[a-z0-9_:]+`)
	histogram   = regexp.MustCompile(`_(bucket|sum|count)$`)
	record      = regexp.MustCompile(`(?m)^\s*- record: (\S+)$`)
	alert       = regexp.MustCompile(`(?m)^\s*- alert: (\S+)$`)
	grouped     = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	legend      = regexp.MustCompile(`\{\{ ?(?:\$labels\.)?([a-z]+) ?\}\}`)
	failures    = regexp.MustCompile(`outcome=~"([a-z_|]+)"`)
	tabled      = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| [^|]* \\| ([^|]*) \\|$")
	description = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
)

// panel is what we look at of a panel.
type panel struct {
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(text(t, "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// TestDashboard: it names only metrics and labels that are there, and leaves out no
// metric.
func TestDashboard(t *testing.T) {
	known, shown := families(t), map[string]bool{}
	for name, labels := range recorded(text(t, "rules.yaml")) {
		known[name] = labels
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			names := metric.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %q: no metric in %s", p.Title, target.Expr)
			}
			for _, name := range names {
				shown[check(t, known, name, target.Expr+target.LegendFormat)] = true
			}
		}
	}
	for name := range families(t) {
		if !shown[name] && !strings.Contains(text(t, "rules.yaml"), name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestRules: they name only metrics and labels that are there; each alert has a case
// in which it fires and one in which it does not, and a text that says what to do.
func TestRules(t *testing.T) {
	rules, tests, readme := text(t, "rules.yaml"), text(t, "rules_test.yaml"), text(t, "README.md")
	known := families(t)
	for name, labels := range recorded(rules) {
		known[name] = labels
	}
	names := metric.FindAllString(rules, -1)
	if len(names) < 10 {
		t.Fatalf("found the metrics %q only", names)
	}
	for _, name := range names {
		check(t, known, name, "")
	}
	alerts := alert.FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for _, match := range alerts {
		name := match[1]
		if !strings.Contains(rules, "/README.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s: no runbook_url that ends in #%s", name, strings.ToLower(name))
		}
		_, section, found := strings.Cut(readme, "\n### "+name+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		if !found || !strings.Contains(section, "Means:") || !strings.Contains(section, "Do:") {
			t.Errorf("%s: README.md has no section of it that says what it means and what to do", name)
		}
		if !strings.Contains(tests, "alertname: "+name+"\n") || !strings.Contains(tests, "alertname: "+name+", eval_time: 20m, exp_alerts: []") {
			t.Errorf("%s: rules_test.yaml does not show it firing, and silent", name)
		}
	}
}

// TestOutcomes: what a read can come to is in the README's table, and what that calls a
// failure is counted as one.
func TestOutcomes(t *testing.T) {
	var all, failed []string
	for _, row := range tabled.FindAllStringSubmatch(text(t, "README.md"), -1) {
		outcomes := strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")
		all = append(all, outcomes...)
		if row[2] == "failure" {
			failed = append(failed, outcomes...)
		}
	}
	if want := metrics.ReadOutcomes[:]; !sameSet(all, want) {
		t.Errorf("the table has %q, reads come to %q", all, want)
	}
	if counted := strings.Split(failures.FindStringSubmatch(text(t, "rules.yaml"))[1], "|"); !sameSet(counted, failed) {
		t.Errorf("the rules count %q, the table %q", counted, failed)
	}
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestPromtool runs Prometheus' own checks. The expressions of the dashboard are
// parsed as rules.
func TestPromtool(t *testing.T) {
	tool := promtool(t)
	for _, args := range [][]string{
		{"check", "rules", "rules.yaml"},
		{"test", "rules", "rules_test.yaml"},
		{"check", "rules", dashboardRules(t)},
	} {
		if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func dashboardRules(t *testing.T) string {
	t.Helper()
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	variable := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			fmt.Fprintf(&rules, "  - record: panel\n    expr: %q\n    labels: {n: %q}\n", variable.Replace(target.Expr), p.Title+target.LegendFormat)
		}
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func promtool(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool is not installed (Debian: apt-get install prometheus), so neither the rules nor the live metrics were checked by it")
	}
	return tool
}

// check returns the family that name belongs to; labels that use groups by, or shows,
// must be the family's.
func check(t *testing.T, known map[string][]string, name, use string) string {
	t.Helper()
	family := name
	if known[family] == nil {
		family = histogram.ReplaceAllString(name, "")
	}
	labels := known[family]
	if labels == nil {
		t.Errorf("%s is no metric of rvfloor", name)
		return ""
	}
	labels = append([]string{"instance", "job", "le"}, labels...)
	var used []string
	for _, match := range grouped.FindAllStringSubmatch(use, -1) {
		used = append(used, strings.Split(match[1], ", ")...)
	}
	for _, match := range legend.FindAllStringSubmatch(use, -1) {
		used = append(used, match[1])
	}
	for _, label := range used {
		if !slices.Contains(labels, label) {
			t.Errorf("%s has no label %q", family, label)
		}
	}
	return family
}

// recorded are the recording rules and their labels, which their names begin with.
func recorded(rules string) map[string][]string {
	found := map[string][]string{}
	for _, match := range record.FindAllStringSubmatch(rules, -1) {
		level, _, _ := strings.Cut(match[1], ":")
		found[match[1]] = strings.Split(level, "_")
	}
	return found
}

// families are the names and labels that rvfloor registers.
func families(t *testing.T) map[string][]string {
	t.Helper()
	r := &recorder{Registry: prometheus.NewRegistry(), families: map[string][]string{}}
	if _, err := metrics.New(r); err != nil {
		t.Fatal(err)
	}
	return r.families
}

type recorder struct {
	*prometheus.Registry
	families map[string][]string
}

func (r *recorder) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 1)
	c.Describe(described)
	match := description.FindStringSubmatch((<-described).String())
	r.families[match[1]] = strings.Split(match[2], ",")
	return nil
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
