package apiserver

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Two transports of one Backends, and two Backends, share a registry; each transport's floors are counted under its name.
func TestMetricsByTransport(t *testing.T) {
	one, two := startEtcd(t), startEtcd(t)
	registry := prometheus.NewRegistry()
	names := map[string]bool{}
	for _, endpoints := range [][]string{one.Endpoints(), two.Endpoints()} {
		b := newBackends(t, Config{Registerer: registry})
		for _, prefix := range []string{"/pods", "/services"} {
			r, err := b.open(podSpec(storageConfig(endpoints...), prefix))
			require.NoError(t, err)
			read(t, r, prefix)
			names[r.transport.name] = true
		}
	}
	require.Len(t, names, 2)
	assert.Equal(t, names, backendLabels(t, registry))
}

// Without a registry the metrics are where API servers serve them.
func TestMetricsGoToTheAPIServersRegistry(t *testing.T) {
	etcd := startEtcd(t)
	b, err := New(Config{})
	require.NoError(t, err)
	defer b.Close()
	r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), podPrefix))
	require.NoError(t, err)
	read(t, r, podPrefix)
	assert.Contains(t, backendLabels(t, legacyregistry.DefaultGatherer), r.transport.name)
}

// Resources that come and go at run time, as custom ones do, leave no series behind, nor does their transport.
func TestNoSeriesAreLeft(t *testing.T) {
	etcd := startEtcd(t)
	registry := prometheus.NewRegistry()
	b := newBackends(t, Config{Registerer: registry})
	series := func() int { return countSeries(t, registry) }
	for range 3 {
		var open []*resource
		for _, name := range []string{"widgets", "gadgets"} {
			cfg := storageConfig(etcd.Endpoints()...)
			cfg.GroupResource.Resource = name
			r, err := b.open(podSpec(cfg, "/"+name))
			require.NoError(t, err)
			read(t, r, "/"+name)
			open = append(open, r)
		}
		all := series()
		open[0].destroy()
		assert.Less(t, series(), all)
		read(t, open[1], "/gadgets")
		open[1].destroy()
		assert.Zero(t, series())
	}
}

func countSeries(t *testing.T, gatherer prometheus.Gatherer) (n int) {
	t.Helper()
	families, err := gatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "rvfloor_panics_total" { // of the process
			n += len(family.Metric)
		}
	}
	return n
}

// backendLabels answers the backends whose floors were counted.
func backendLabels(t *testing.T, gatherer prometheus.Gatherer) map[string]bool {
	t.Helper()
	families, err := gatherer.Gather()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "rvfloor_floor_reads_total" {
			continue
		}
		for _, m := range family.Metric {
			for _, l := range m.Label {
				if l.GetName() == "backend" && m.Counter.GetValue() > 0 {
					found[l.GetValue()] = true
				}
			}
		}
	}
	return found
}

// A registry that has our families for something else is an error, and the connections are closed.
func TestRegistryIsTaken(t *testing.T) {
	etcd := startEtcd(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rvfloor_floor_reads_total", Help: "Not ours."}, []string{"color"}))
	var conns trackedConns
	cfg := storageConfig(etcd.Endpoints()...)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	b := newBackends(t, Config{Registerer: registry})
	_, err := b.open(podSpec(cfg, podPrefix))
	require.Error(t, err)
	assert.Empty(t, b.transports)
	conns.awaitNone(t)
}

// The spans of verified reads go where the API server's go, unless something else was said.
func TestSpans(t *testing.T) {
	etcd := startEtcd(t)
	for _, said := range []bool{false, true} {
		servers, own := tracetest.NewSpanRecorder(), tracetest.NewSpanRecorder()
		c := Config{}
		if said {
			c.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(own))
		}
		cfg := storageConfig(etcd.Endpoints()...)
		cfg.Transport.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(servers))
		r, err := newBackends(t, c).open(podSpec(cfg, podPrefix))
		require.NoError(t, err)
		read(t, r, podPrefix)
		r.destroy()
		assert.Equal(t, !said, hasOurs(servers))
		assert.Equal(t, said, hasOurs(own))
		assert.True(t, hasRPCs(servers), "the transport's own are etcd's calls, always")
	}
}

func hasOurs(spans *tracetest.SpanRecorder) bool {
	return hasScope(spans, "github.com/rvfloor/rvfloor/decorator")
}

func hasRPCs(spans *tracetest.SpanRecorder) bool {
	return hasScope(spans, "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc")
}

func hasScope(spans *tracetest.SpanRecorder, scope string) bool {
	for _, span := range spans.Ended() {
		if span.InstrumentationScope().Name == scope {
			return true
		}
	}
	return false
}
