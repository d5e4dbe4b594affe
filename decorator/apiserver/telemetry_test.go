package apiserver

import (
	"testing"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Both kinds of clients are counted in the one family that an API server serves.
func TestClientCallsAreCountedOnce(t *testing.T) {
	server := startRecorder(t, nil)
	for _, opener := range []rawOpener{upstream, ours()} {
		s := opener.mustOpen(t, storageConfig(server.addr))
		before := started(t)
		get(t, t.Context(), s)
		assert.Equal(t, before+1, started(t), opener.name)
	}
}

// started reads grpc_client_started_total of etcd's Range from the API server's registry.
func started(t *testing.T) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	n, found := 0.0, 0
	for _, family := range families {
		if family.GetName() != "grpc_client_started_total" {
			continue
		}
		found++
		for _, m := range family.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["grpc_service"] == "etcdserverpb.KV" && labels["grpc_method"] == "Range" {
				n += m.Counter.GetValue()
			}
		}
	}
	assert.LessOrEqual(t, found, 1)
	return n
}

// Whoever comes second counts into the first's collector, and a collector of another kind stops nobody.
func TestRegisterClientMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	first := registerClientMetrics(reg)
	assert.Same(t, first, registerClientMetrics(reg))

	taken := prometheus.NewRegistry()
	taken.MustRegister(renamed{grpcprom.NewClientMetrics()})
	metrics := registerClientMetrics(taken)
	require.NotNil(t, metrics)
	assert.NotNil(t, metrics.UnaryClientInterceptor())
	n, err := testutil.GatherAndCount(taken)
	require.NoError(t, err)
	assert.Zero(t, n)
}

// renamed has the same families in another type.
type renamed struct{ *grpcprom.ClientMetrics }

func TestClientsShareALogger(t *testing.T) {
	one, err := clientConfig(storageConfig("a").Transport)
	require.NoError(t, err)
	two, err := clientConfig(storageConfig("b").Transport)
	require.NoError(t, err)
	assert.Same(t, one.Logger, two.Logger)
}
