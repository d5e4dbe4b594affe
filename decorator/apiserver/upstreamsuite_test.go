package apiserver

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/upstreamsuite"
)

// What an API server gets keeps upstream's contract, as upstream's own cached store does: see the control in upstreamsuite.
func TestUpstreamSuite(t *testing.T) { upstreamsuite.Run(t, upstreamSetup) }

// upstreamSetup is what an API server does for one resource.
func upstreamSetup(t testing.TB, opts upstreamsuite.SetupOptions) upstreamsuite.Setup {
	etcd := upstreamsuite.StartEtcd(t)
	// No write of ours, neither while the cache is filled nor later: the suite counts revisions.
	cfg := Config{Registerer: prometheus.NewRegistry(), Pulse: -1, Strategy: decorator.StrategyRequest}
	if opts.Pristine {
		cfg.SentinelKey = new("")
	}
	backends, err := New(cfg)
	require.NoError(t, err)
	backends.dialOptions = etcd.DialOptions()
	t.Cleanup(func() { require.NoError(t, backends.Close()) })

	backend := storagebackend.NewDefaultConfig(upstreamsuite.PathPrefix, opts.Codec)
	backend.Transport.ServerList = etcd.Endpoints()
	backend.Transformer = opts.Transformer
	store, destroy, err := backends.StorageDecorator()(backend.ForResource(upstreamsuite.GroupResource), upstreamsuite.ResourcePrefix,
		opts.KeyFunc, upstreamsuite.NewPod, upstreamsuite.NewPodList, opts.GetAttrs, opts.IndexerFuncs, &opts.Indexers)
	require.NoError(t, err)
	t.Cleanup(destroy)
	upstreamsuite.FirstRead(t, store)
	return upstreamsuite.Setup{Store: store, Etcd: etcd, ZeroIsNewest: true, ContinueSyncs: true}
}
