package decorator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// tracing keeps the spans of traces whose root is named "sampled", as an API server's
// provider does that samples some of its requests.
type tracing struct {
	*sdktrace.TracerProvider
	spans *tracetest.InMemoryExporter
}

func newTracing() tracing {
	spans := tracetest.NewInMemoryExporter()
	return tracing{sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(script{})), sdktrace.WithSyncer(spans)), spans}
}

type script struct{}

func (script) Description() string { return "by name" }
func (script) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Name == "sampled" {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

// request runs f as a request whose trace has a root of that name.
func (tr tracing) request(ctx context.Context, name string, f func(context.Context)) {
	ctx, span := tr.Tracer("").Start(ctx, name)
	defer span.End()
	f(ctx)
}

// ended is the spans of a name, in the order in which they began.
func (tr tracing) ended(name string) []tracetest.SpanStub {
	all := slices.DeleteFunc(tr.spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return all
}

// tree shows the spans below one, by name, with a ! where one failed.
func (tr tracing) tree(parent trace.SpanID) string {
	var all []string
	for _, s := range tr.spans.GetSpans() {
		if s.Parent.SpanID() != parent {
			continue
		}
		name := strings.TrimPrefix(s.Name, "rvfloor ")
		if s.Status.Code == codes.Error {
			name += "!"
			if len(s.Events) != 1 || s.Events[0].Name != "exception" {
				name += "unrecorded"
			}
		}
		all = append(all, name+tr.tree(s.SpanContext.SpanID()))
	}
	if all == nil {
		return ""
	}
	slices.Sort(all)
	return "(" + strings.Join(all, ", ") + ")"
}

// wantAttributes compares those attributes of a span that are named.
func wantAttributes(t *testing.T, s tracetest.SpanStub, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, a := range s.Attributes {
		if name := strings.TrimPrefix(string(a.Key), "rvfloor."); want[name] != "" {
			got[name] = a.Value.String()
		}
	}
	if len(want) > 0 && !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", s.Name, got, want)
	}
}

// TestSpans is what the trace of one read shows.
func TestSpans(t *testing.T) {
	read := func(verb, version string) func(context.Context, *rig) {
		return func(ctx context.Context, r *rig) { _, _ = readA(ctx, verb, r.store, version) }
	}
	held := func(r *rig) { r.cached.Hold(); r.put("a") }
	noFloor := func(r *rig) { r.failFloors(errors.New("no quorum")) }
	for name, row := range map[string]struct {
		setup setup
		fault func(*rig)
		read  func(context.Context, *rig)
		tree  string
		attrs map[string]string // some of those of the read's span
		floor map[string]string // and of that of the floor read
	}{
		"a list": {setup{}, nil, read("list", ""),
			"(list(floor read, inner call(cacher.GetList), wait for cache, wait for floor))",
			map[string]string{"resource": "pods", "route": "floor", "zero_version": "Verified", "on_unverified": "Fail", "shadow": "false",
				"outcome": "ok", "target": "3", "applied": "3", "kicks": "1"},
			map[string]string{"backend": "default", "outcome": "ok", "revision": "3", "callers": "1"}},
		"a get": {setup{}, nil, read("get", "0"),
			"(get(floor read, inner call(cacher.Get), wait for cache, wait for floor))", nil, nil},
		"a get of nothing": {setup{}, nil, func(ctx context.Context, r *rig) {
			_ = r.store.Get(ctx, "/pods/ns/nothing", storage.GetOptions{ResourceVersion: "0"}, &example.Pod{})
		},
			"(get(floor read, inner call(cacher.Get), wait for cache, wait for floor))", map[string]string{"outcome": "ok"}, nil},
		"a watch": {setup{}, nil, read("watch", ""),
			"(watch(floor read, inner call(cacher.Watch), wait for cache, wait for floor))", nil, nil},
		"bounded": {setup{cfg: zeroVersion(ZeroBounded)}, nil, read("list", "0"),
			"(list(floor read, inner call(cacher.GetList), wait for cache, wait for floor))",
			map[string]string{"route": "bounded", "zero_version": "Bounded"}, nil},
		"a known revision": {setup{}, nil, read("list", "2"),
			"(list(inner call(cacher.GetList)))", map[string]string{"route": "least", "target": "2", "kicks": "0"}, nil},
		"not fresh": {setup{}, held, read("list", ""),
			"(list!(floor read, wait for cache!, wait for floor))", map[string]string{"outcome": "not_fresh", "target": "4", "applied": "2"}, nil},
		"direct": {setup{cfg: Config{OnUnverified: UnverifiedDirect}}, held, read("list", ""),
			"(list(direct call, floor read, wait for cache!, wait for floor))", map[string]string{"outcome": "ok", "on_unverified": "Direct"}, nil},
		"stale": {setup{cfg: Config{OnUnverified: UnverifiedStale}}, held, read("list", ""),
			"(list(floor read, inner call(cacher.GetList), wait for cache!, wait for floor))", map[string]string{"outcome": "stale"}, nil},
		"no floor": {setup{}, noFloor, read("list", ""),
			"(list!(floor read!, floor read!, wait for floor!))", map[string]string{"outcome": "no_floor"},
			map[string]string{"outcome": "error", "callers": "1"}},
		"rewound": {setup{}, (*rig).restore, read("watch", ""),
			"(watch!(floor read!, wait for floor!))", map[string]string{"outcome": "rewound"}, map[string]string{"outcome": "rewound"}},
		"not ready": {setup{filling: true}, nil, read("list", ""),
			"(list!(wait for cache!))", map[string]string{"outcome": "not_ready"}, nil},
		"gone": {setup{}, (*rig).blockFloors, func(ctx context.Context, r *rig) {
			ctx, cancel := context.WithCancelCause(ctx)
			go func() { synctest.Wait(); cancel(errors.New("hung up")) }()
			_, _ = readA(ctx, "list", r.store, "")
		},
			"(list(floor read, wait for floor))", map[string]string{"outcome": "canceled"}, map[string]string{"outcome": "canceled"}},
		"shadow": {setup{cfg: Config{Shadow: true}}, nil, read("list", ""),
			"(cacher.GetList, list(floor read, wait for cache, wait for floor))", map[string]string{"shadow": "true"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTracing()
			row.setup.cfg.TracerProvider = tr
			bubble(t, row.setup, func(t *testing.T, r *rig) {
				r.put("a")
				settled()
				r.memory.Bump() // so that progress is needed
				if row.fault != nil {
					row.fault(r)
				}
				tr.request(t.Context(), "sampled", func(ctx context.Context) { row.read(ctx, r) })
				settled()
				if got := tr.tree(tr.ended("sampled")[0].SpanContext.SpanID()); got != row.tree {
					t.Errorf("the spans are\n%s, want\n%s", got, row.tree)
				}
				for _, verb := range []string{"rvfloor get", "rvfloor list", "rvfloor watch"} {
					for _, s := range tr.ended(verb) {
						wantAttributes(t, s, row.attrs)
					}
				}
				for _, s := range tr.ended(spanFloorRead) {
					wantAttributes(t, s, row.floor)
				}
			})
		})
	}
}

// TestFloorSpan: a read of the floor that several callers share has one span, if any of
// them is sampled. It is in the trace of the first such, and linked with each, both ways.
func TestFloorSpan(t *testing.T) {
	for name, row := range map[string]struct {
		callers []string // "gone" is sampled and leaves before the read is sent
		spans   int
	}{
		"some":               {[]string{"unsampled", "sampled", "unsampled", "sampled", "gone", "sampled"}, 1},
		"one":                {[]string{"unsampled", "sampled"}, 1},
		"the first has gone": {[]string{"gone", "sampled"}, 1},
		"none":               {[]string{"unsampled", "unsampled"}, 0},
		"none that is there": {[]string{"gone", "unsampled"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTracing()
			bubble(t, setup{cfg: Config{TracerProvider: tr}}, func(t *testing.T, r *rig) {
				answer := make(chan struct{})
				r.writer.OnRevision(func(_ context.Context, revision uint64) (uint64, error) { <-answer; return revision, nil })
				var all sync.WaitGroup
				ask := func(ctx context.Context, name string) {
					all.Go(func() {
						tr.request(ctx, name, func(ctx context.Context) { _, _ = list(ctx, r.store, everything("")) })
					})
					settled()
					time.Sleep(time.Millisecond) // so that they began one after the other
				}
				ask(t.Context(), "unsampled") // its read is in flight when the others come
				ctx, leave := context.WithCancel(t.Context())
				staying := 0
				for _, caller := range row.callers {
					if caller == "gone" {
						ask(ctx, "sampled")
						continue
					}
					staying++
					ask(t.Context(), caller)
				}
				leave()
				settled()
				tr.spans.Reset() // of those who have gone
				close(answer)
				all.Wait()

				floors, lists := tr.ended(spanFloorRead), tr.ended("rvfloor list")
				if len(floors) != row.spans {
					t.Fatalf("%d spans of floor reads, want %d", len(floors), row.spans)
				}
				if r.floorReads() != 2 {
					t.Fatalf("%d floor reads, want 2", r.floorReads())
				}
				var sampled []trace.SpanContext
				for _, l := range lists {
					sampled = append(sampled, l.SpanContext)
				}
				for _, floor := range floors {
					wantAttributes(t, floor, map[string]string{"callers": strconv.Itoa(staying), "outcome": "ok"})
					if got := linked(floor); !slices.EqualFunc(got, sampled, trace.SpanContext.Equal) {
						t.Errorf("the floor read is linked with %v, want %v", got, sampled)
					}
					if floor.Parent.SpanID() != sampled[0].SpanID() {
						t.Error("the floor read is not a child of the first sampled caller's")
					}
					for _, l := range lists {
						if got := linked(l); len(got) != 1 || !got[0].Equal(floor.SpanContext) {
							t.Errorf("a list is linked with %v, want the floor read's", got)
						}
					}
				}
				traces := map[trace.TraceID]bool{}
				for _, s := range tr.spans.GetSpans() {
					traces[s.SpanContext.TraceID()] = true
				}
				want := slices.DeleteFunc(slices.Clone(row.callers), func(c string) bool { return c != "sampled" })
				if len(lists) != len(want) || len(traces) != len(want) {
					t.Errorf("%d lists in %d traces, want one for each of %q", len(lists), len(traces), want)
				}
			})
		})
	}
}

// linked is what a span has links to.
func linked(s tracetest.SpanStub) []trace.SpanContext {
	var all []trace.SpanContext
	for _, l := range s.Links {
		all = append(all, l.SpanContext)
	}
	return all
}
