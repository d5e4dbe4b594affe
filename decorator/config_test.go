package decorator

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// wantError checks that an error names the field and what to do.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "rvfloor_kicks_total"}))
	for name, row := range map[string]struct {
		cfg   Config
		parts []string
	}{
		"nil source":             {Config{}, []string{"Source", "NewSentinel"}},
		"nil function as source": {Config{Source: freshness.SourceFunc(nil)}, []string{"src is nil", "NewSentinel"}},
		"unknown ZeroVersion":    {Config{Source: source(1), ZeroVersion: "verified"}, []string{"ZeroVersion", `"verified"`, `"Verified"`, `"Bounded"`, `"AsIs"`}},
		"unknown OnUnverified":   {Config{Source: source(1), OnUnverified: "Panic"}, []string{"OnUnverified", `"Panic"`, `"Fail"`, `"Quorum"`, `"Direct"`, `"Stale"`}},
		"unknown Strategy":       {Config{Source: source(1), Strategy: "pray"}, []string{"Strategy", `"pray"`, `"auto"`, `"request"`, `"nudge"`, `"range-proof"`, `"write"`, `"direct"`}},
		"Bounded by nothing":     {Config{Source: source(1), ZeroVersion: ZeroBounded}, []string{"MaxStaleness", "required", "Bounded"}},
		"bound without Bounded":  {Config{Source: source(1), MaxStaleness: time.Second}, []string{"MaxStaleness", "Bounded"}},
		"negative MaxStaleness":  {Config{Source: source(1), ZeroVersion: ZeroBounded, MaxStaleness: -1}, []string{"MaxStaleness", "positive"}},
		"negative MaxWait":       {Config{Source: source(1), MaxWait: -time.Second}, []string{"MaxWait", "-1s", "positive"}},
		"negative ReadyWait":     {Config{Source: source(1), ReadyWait: -time.Second}, []string{"ReadyWait", "-1s", "positive"}},
		"names are taken":        {Config{Source: source(1), Registerer: taken}, []string{"Registerer"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := NewBackend(row.cfg)
			if b != nil {
				t.Error("got a Backend, too")
			}
			wantError(t, err, row.parts...)
		})
	}
}

// notAList is an object where a list is wanted.
func notAList() runtime.Object { return &metav1.Status{} }

func TestBadResource(t *testing.T) {
	b, other := backend(t, Config{}), backend(t, Config{})
	good := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList}
	feed := func(b *Backend, prefix string) *Feed {
		f, err := b.Feed(&recorder{}, Resource{GroupResource: pods, Prefix: prefix, NewList: newPodList})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for name, row := range map[string]struct {
		change func(*Resource)
		inner  storage.Interface
		parts  []string
		wrap   bool // only Wrap looks at it
		feed   bool // only Feed does
	}{
		"nil storage":               {func(*Resource) {}, nil, []string{"nil", "pods", "pass"}, false, false},
		"no prefix":                 {func(r *Resource) { r.Prefix = "" }, &recorder{}, []string{"Prefix", "pods", "ResourcePrefix"}, false, false},
		"a prefix of everything":    {func(r *Resource) { r.Prefix = "/" }, &recorder{}, []string{"Prefix", `"/"`}, false, false},
		"a prefix without a slash":  {func(r *Resource) { r.Prefix = "pods" }, &recorder{}, []string{"Prefix", `"pods"`}, false, false},
		"nil NewList":               {func(r *Resource) { r.NewList = nil }, &recorder{}, []string{"NewList", "pods", "set it"}, false, false},
		"NewList of no list":        {func(r *Resource) { r.NewList = notAList }, &recorder{}, []string{"NewList", "Status"}, false, true},
		"a Feed of another Backend": {func(r *Resource) { r.Feed = feed(other, "/pods/") }, &recorder{}, []string{"Feed", "pods", "another Backend"}, true, false},
		"a Feed of another prefix":  {func(r *Resource) { r.Feed = feed(b, "/nodes/") }, &recorder{}, []string{"Feed", "/nodes/", "/pods/"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			res := good
			row.change(&res)
			if !row.feed {
				s, err := b.Wrap(row.inner, res)
				if s != nil {
					t.Error("got a Store, too")
				}
				wantError(t, err, row.parts...)
			}
			if !row.wrap {
				f, err := b.Feed(row.inner, res)
				if f != nil {
					t.Error("got a Feed, too")
				}
				wantError(t, err, row.parts...)
			}
		})
	}
}

func backend(t *testing.T, cfg Config) *Backend {
	t.Helper()
	cfg.Source = source(1)
	b, err := NewBackend(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestDefaults: what a zero Config means is what its comments say.
func TestDefaults(t *testing.T) {
	got := backend(t, Config{}).cfg
	if got.Name != "default" || got.ZeroVersion != ZeroVerified || got.OnUnverified != UnverifiedFail || got.Strategy != StrategyAuto ||
		got.MaxWait != 3*time.Second || got.ReadyWait != 200*time.Millisecond {
		t.Errorf("a zero Config means %+v", got)
	}
	if got := backend(t, Config{MaxWait: time.Millisecond}).cfg; got.ReadyWait > got.MaxWait {
		t.Errorf("with MaxWait %v a read waits %v for a fill", got.MaxWait, got.ReadyWait)
	}
}

// TestSharedRegisterer: two Backends may have one.
func TestSharedRegisterer(t *testing.T) {
	registry := prometheus.NewRegistry()
	a, b := backend(t, Config{Registerer: registry, Name: "a"}), backend(t, Config{Registerer: registry, Name: "b"})
	if a.metrics.Reads != b.metrics.Reads {
		t.Error("each has counters of its own, of which one is not collected")
	}
}

// pointers is a list of pointers, as some generated types have; anything is one whose
// items say nothing of their type.
type pointers struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*example.Pod
}

func (l *pointers) DeepCopyObject() runtime.Object { return &pointers{Items: l.Items} }

type anything struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

func (l *anything) DeepCopyObject() runtime.Object { return &anything{Items: l.Items} }

// TestBookmarkKinds: an echo carries an object of the list's kind, which the cache
// checks.
func TestBookmarkKinds(t *testing.T) {
	for name, row := range map[string]struct {
		list runtime.Object
		is   func(runtime.Object) bool
	}{
		"structs":      {&example.PodList{}, func(o runtime.Object) bool { _, ok := o.(*example.Pod); return ok }},
		"pointers":     {&pointers{}, func(o runtime.Object) bool { _, ok := o.(*example.Pod); return ok }},
		"unstructured": {&unstructured.UnstructuredList{}, func(o runtime.Object) bool { _, ok := o.(*unstructured.Unstructured); return ok }},
		"interfaces":   {&anything{}, func(o runtime.Object) bool { _, ok := o.(*metav1.PartialObjectMetadata); return ok }},
	} {
		t.Run(name, func(t *testing.T) {
			newItem, err := itemMaker(func() runtime.Object { return row.list })
			if err != nil {
				t.Fatal(err)
			}
			event := newBookmark(newItem, 7)
			if !row.is(event.Object) || short(event) != "BOOKMARK @7" {
				t.Errorf("got %s of %T", short(event), event.Object)
			}
			if newItem() == newItem() {
				t.Error("two bookmarks share an object")
			}
		})
	}
}
