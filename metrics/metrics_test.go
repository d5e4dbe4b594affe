package metrics

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// families are what dashboards, alerts and the documentation are written against:
// their types and labels.
var families = map[string]string{
	"rvfloor_backend_property":             "gauge backend property verdict",
	"rvfloor_bookmarks_dropped_total":      "counter group resource",
	"rvfloor_breaches_total":               "counter group resource",
	"rvfloor_direct_lists_total":           "counter group resource outcome",
	"rvfloor_floor_read_callers":           "histogram backend",
	"rvfloor_floor_read_duration_seconds":  "histogram backend",
	"rvfloor_floor_reads_total":            "counter backend outcome",
	"rvfloor_kicks_total":                  "counter group resource outcome",
	"rvfloor_lag_revisions":                "gauge group resource",
	"rvfloor_last_fresh_timestamp_seconds": "gauge group resource",
	"rvfloor_nudges_total":                 "counter backend outcome",
	"rvfloor_panics_total":                 "counter ",
	"rvfloor_reads_total":                  "counter group resource verb route outcome",
	"rvfloor_rewinds_total":                "counter backend evidence",
	"rvfloor_stream_reopens_total":         "counter group resource reason",
	"rvfloor_wait_duration_seconds":        "histogram group resource verb",
	"rvfloor_waiters":                      "gauge group resource",
}

// TestFamilies: every field is registered under its name, with its labels in the order
// in which callers pass their values, and says what it is.
func TestFamilies(t *testing.T) {
	registry := &recorder{Registry: prometheus.NewRegistry()}
	m := must(t, registry)
	// A family has a type once it has a series.
	fields := reflect.ValueOf(m).Elem()
	if fields.NumField() != len(families) {
		t.Errorf("Metrics has %d fields, want %d", fields.NumField(), len(families))
	}
	touched := func(vec any, labels []string) {
		switch v := vec.(type) {
		case *prometheus.CounterVec:
			v.WithLabelValues(labels...)
		case *prometheus.GaugeVec:
			v.WithLabelValues(labels...)
		case *prometheus.HistogramVec:
			v.WithLabelValues(labels...)
		}
	}
	if len(registry.labels) != fields.NumField() {
		t.Fatalf("%d collectors are registered, want %d", len(registry.labels), fields.NumField())
	}
	for i, labels := range registry.labels {
		touched(registry.collectors[i], labels)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, family := range gathered {
		name := family.GetName()
		got[name] = strings.ToLower(family.GetType().String())
		if help := family.GetHelp(); len(help) < 20 || !strings.HasSuffix(help, ".") {
			t.Errorf("%s: help %q is no sentence", name, help)
		}
		if i > 0 && gathered[i-1].GetHelp() == family.GetHelp() {
			t.Errorf("%s has the help of another family", name)
		}
	}
	for i, name := range registry.names {
		got[name] += " " + strings.Join(registry.labels[i], " ")
	}
	if !reflect.DeepEqual(got, families) {
		t.Errorf("got %v\nwant %v", got, families)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

// TestLabelOrder: the comments of the fields, which callers pass values by, are true.
func TestLabelOrder(t *testing.T) {
	m := must(t, nil)
	for want, vec := range map[string]*prometheus.CounterVec{
		`backend="1" outcome="2"`:                               m.FloorReads,
		`group="1" resource="2" outcome="3"`:                    m.Kicks,
		`group="1" resource="2" verb="3" route="4" outcome="5"`: m.Reads,
		`group="1" resource="2" reason="3"`:                     m.StreamReopens,
		`backend="1" evidence="2"`:                              m.Rewinds,
	} {
		values := make([]string, strings.Count(want, "="))
		for i := range values {
			values[i] = fmt.Sprint(i + 1)
		}
		vec.WithLabelValues(values...)
		var labels prometheus.Labels = map[string]string{}
		for pair := range strings.FieldsSeq(want) {
			name, value, _ := strings.Cut(pair, "=")
			labels[name] = strings.Trim(value, `"`)
		}
		if !vec.Delete(labels) {
			t.Errorf("no series {%s}", want)
		}
	}
}

// TestShared: the backends of one process are given one registerer, and count into the
// same families.
func TestShared(t *testing.T) {
	registry := prometheus.NewRegistry()
	one, two := must(t, registry), must(t, registry)
	one.Reads.WithLabelValues("g", "r", "list", "floor", OK).Inc()
	two.Reads.WithLabelValues("g", "r", "list", "floor", OK).Inc()
	if got := testutil.ToFloat64(one.Reads); got != 2 {
		t.Errorf("%v reads were counted, want 2", got)
	}
	a, b := reflect.ValueOf(one).Elem(), reflect.ValueOf(two).Elem()
	for i := range a.NumField() {
		if a.Field(i).Interface() != b.Field(i).Interface() {
			t.Errorf("%s is not shared", a.Type().Field(i).Name)
		}
	}
}

// TestNotShared: without a registerer, and on registerers of their own, nothing is.
func TestNotShared(t *testing.T) {
	nobody, one, two := must(t, nil), must(t, prometheus.NewRegistry()), must(t, prometheus.NewRegistry())
	for _, m := range []*Metrics{nobody, one} {
		m.Breaches.WithLabelValues("g", "r").Inc()
	}
	if got := testutil.CollectAndCount(two.Breaches); got != 0 {
		t.Errorf("%d series came from elsewhere", got)
	}
}

// TestRefused: what else has one of the names is told.
func TestRefused(t *testing.T) {
	for name, other := range map[string]prometheus.Collector{
		"other labels": prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rvfloor_kicks_total", Help: "Not ours."}, []string{"color"}),
		"other type": prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rvfloor_breaches_total",
			Help: "Answers or watches found to break the promise. Alert on any."}, []string{"group", "resource"}),
	} {
		registry := prometheus.NewRegistry()
		registry.MustRegister(other)
		_, err := New(registry)
		if err == nil || !strings.Contains(err.Error(), "rvfloor_") {
			t.Errorf("%s: got %v, want an error that names the family", name, err)
		}
	}
	down := errors.New("closed")
	if _, err := New(&recorder{Registry: prometheus.NewRegistry(), err: down}); !errors.Is(err, down) {
		t.Errorf("got %v, want the registerer's own error", err)
	}
}

// TestZero: an alert sees the first rewind, breach and failed floor read.
func TestZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := must(t, registry)
	m.ZeroBackend("b", "revision")
	m.ZeroResource("g", "r")
	want := `
# HELP rvfloor_breaches_total Answers or watches found to break the promise. Alert on any.
# TYPE rvfloor_breaches_total counter
rvfloor_breaches_total{group="g",resource="r"} 0
# HELP rvfloor_floor_reads_total Linearizable revision reads sent to the backend.
# TYPE rvfloor_floor_reads_total counter
rvfloor_floor_reads_total{backend="b",outcome="bad"} 0
rvfloor_floor_reads_total{backend="b",outcome="canceled"} 0
rvfloor_floor_reads_total{backend="b",outcome="error"} 0
rvfloor_floor_reads_total{backend="b",outcome="ok"} 0
rvfloor_floor_reads_total{backend="b",outcome="rewound"} 0
# HELP rvfloor_rewinds_total Times the backend's history was found to have gone back.
# TYPE rvfloor_rewinds_total counter
rvfloor_rewinds_total{backend="b",evidence="revision"} 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"rvfloor_breaches_total", "rvfloor_floor_reads_total", "rvfloor_rewinds_total")
	if err != nil {
		t.Error(err)
	}
	m.Breaches.WithLabelValues("g", "r").Inc()
	m.ZeroResource("g", "r")
	if got := testutil.ToFloat64(m.Breaches); got != 1 {
		t.Errorf("another Store of the resource set the counter to %v, want 1", got)
	}
}

func must(t *testing.T, registerer prometheus.Registerer) *Metrics {
	t.Helper()
	m, err := New(registerer)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var description = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// recorder notes the names and labels of what is registered, or refuses with err.
type recorder struct {
	*prometheus.Registry
	err        error
	collectors []prometheus.Collector
	names      []string
	labels     [][]string
}

func (r *recorder) Register(c prometheus.Collector) error {
	if r.err != nil {
		return r.err
	}
	described := make(chan *prometheus.Desc, 1)
	c.Describe(described)
	match := description.FindStringSubmatch((<-described).String())
	r.collectors = append(r.collectors, c)
	r.names = append(r.names, match[1])
	r.labels = append(r.labels, slices.Collect(strings.SplitSeq(match[2], ",")))
	return r.Registry.Register(c)
}
