package decorator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/upstreamsuite"
	"github.com/rvfloor/rvfloor/progress"
)

// The store keeps upstream's contract, as upstream's own cached store does: see the control in upstreamsuite.
func TestUpstreamSuite(t *testing.T) {
	upstreamsuite.Run(t, upstreamSetup(decorator.Config{}))
}

// TestUpstreamSuiteAsIs: with ZeroVersion AsIs, a read at "0" keeps the plain cache's contract, too.
func TestUpstreamSuiteAsIs(t *testing.T) {
	upstreamsuite.Run(t, upstreamSetup(decorator.Config{ZeroVersion: decorator.ZeroAsIs}))
}

func BenchmarkUpstreamSuite(b *testing.B) {
	upstreamsuite.Benchmark(b, upstreamsuite.Size{Namespaces: 10, PodsPerNamespace: 100, Nodes: 50}, upstreamSetup(decorator.Config{}))
}

// upstreamSetup stacks Store(CacheDelegator(Cacher(Feed(etcd3)))), with cfg's policy.
func upstreamSetup(cfg decorator.Config) upstreamsuite.SetupFunc {
	return func(t testing.TB, opts upstreamsuite.SetupOptions) upstreamsuite.Setup {
		etcd := upstreamsuite.StartEtcd(t)
		client := etcd.NewClient(t)
		client.Client.Watcher = progress.NewWatcher(client.Client) // before etcd3 takes it from the client
		raw := upstreamsuite.NewRaw(t, client, opts)

		cfg := cfg
		// Upstream's tests count on a cache that is filled at revision 1, and on revisions that only they move.
		cfg.Pulse = -1 // the first read makes the sentinel
		cfg.Strategy = decorator.StrategyRequest
		cfg.Source = freshness.NewSentinel(client.Client, freshness.SentinelKey(upstreamsuite.PathPrefix))
		if opts.Pristine {
			cfg.Source = freshness.SourceFunc(raw.GetCurrentResourceVersion)
		}
		backend, err := decorator.NewBackend(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, backend.Close()) })
		resource := decorator.Resource{
			GroupResource: upstreamsuite.GroupResource,
			Prefix:        upstreamsuite.ResourcePrefix,
			NewList:       upstreamsuite.NewPodList,
			Raw:           raw,
		}
		resource.Feed, err = backend.Feed(raw, resource)
		require.NoError(t, err)
		store, err := backend.Wrap(upstreamsuite.NewCache(t, resource.Feed, opts), resource)
		require.NoError(t, err)
		upstreamsuite.FirstRead(t, store)
		return upstreamsuite.Setup{Store: store, Etcd: etcd, ZeroIsNewest: cfg.ZeroVersion != decorator.ZeroAsIs, ContinueSyncs: true}
	}
}
