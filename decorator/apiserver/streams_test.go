package apiserver

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestFewStreams: where etcd allows fewer streams on a connection than there are resources, or just as many, all of them
// become ready, and LISTs are answered by the caches, verified; no more connections are opened than it takes.
func TestFewStreams(t *testing.T) {
	for _, test := range []struct {
		resources, allowed, most int // connections for watches
	}{
		{20, 16, 3},
		{16, 16, 3},
		{20, 1 << 20, 1},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.resources, test.allowed), func(t *testing.T) {
			etcd := etcdlab.Run(t, etcdlab.Config{Tune: func(_ int, cfg *embed.Config) { cfg.MaxConcurrentStreams = uint32(test.allowed) }})
			b := newBackends(t, Config{})
			var all []*resource
			for i := range test.resources {
				prefix := fmt.Sprintf("/pods%d", i)
				r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), prefix))
				require.NoError(t, err)
				all = append(all, r)
			}
			require.Eventually(t, func() bool {
				return b.HealthCheck().Check(httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil)) == nil
			}, wait, tick)
			for i, r := range all {
				require.Eventually(t, func() bool { return r.store.ReadinessCheck() == nil }, wait, tick, "resource %d", i)
			}
			backend := all[0].transport.backend
			before := backend.Status()
			for i, r := range all {
				require.NoError(t, tryRead(t, r, fmt.Sprintf("/pods%d", i)))
			}
			assert.Equal(t, decorator.StrategyRequest, backend.Status().Strategy.Name, before.Strategy.Reason)
			for _, r := range backend.Status().Resources {
				assert.True(t, r.Ready && r.Applied > 0, "%+v", r)
			}
			s := all[0].transport.clients.streams
			s.mu.Lock()
			defer s.mu.Unlock()
			// The probe may have some streams when it shows that there are too few.
			assert.LessOrEqual(t, len(s.conns), test.most)
		})
	}
}
