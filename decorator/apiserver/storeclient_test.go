package apiserver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	endpointsrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

// Two stores share a connection, and closing one of them takes nothing from the other.
func TestStoreClientsShareAConnection(t *testing.T) {
	etcd := startEtcd(t)
	pooled, err := dial(t.Context(), storageConfig(etcd.Endpoints()...).Transport)
	require.NoError(t, err)
	defer pooled.Close()
	one := newStoreClient(pooled, clientv3.NewWatcher(pooled))
	two := newStoreClient(pooled, clientv3.NewWatcher(pooled))

	watchOne := one.Watch(t.Context(), "key")
	_ = one.Close() // answers that its context has ended
	_, open := <-watchOne
	assert.False(t, open, "a closed client ends its watches")
	assert.ErrorIs(t, one.Ctx().Err(), context.Canceled)

	watchTwo := two.Watch(t.Context(), "key", clientv3.WithCreatedNotify())
	require.True(t, (<-watchTwo).Created)
	lease, err := two.Grant(t.Context(), 60)
	require.NoError(t, err)
	alive, err := two.KeepAlive(t.Context(), lease.ID)
	require.NoError(t, err)
	require.NotNil(t, <-alive)
	put, err := two.Kubernetes.OptimisticPut(t.Context(), "key", []byte("value"), 0, kubernetes.PutOptions{LeaseID: lease.ID})
	require.NoError(t, err)
	assert.True(t, put.Succeeded)
	event := (<-watchTwo).Events[0]
	assert.Equal(t, int64(lease.ID), event.Kv.Lease)
	got, err := two.Kubernetes.Get(t.Context(), "key", kubernetes.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "value", string(got.KV.Value))
	_, err = two.Status(t.Context(), etcd.Endpoints()[0])
	require.NoError(t, err)

	require.NoError(t, pooled.Close())
	assert.Error(t, two.Ctx().Err(), "a store's client ends with the pooled one")
	_ = two.Close()
}

// Calls are timed for the request that they serve, as in a stock API server's audit log and traces.
func TestStoreClientTracksLatency(t *testing.T) {
	etcd := startEtcd(t)
	for _, opener := range []rawOpener{upstream, ours()} {
		s := opener.mustOpen(t, storageConfig(etcd.Endpoints()...))
		ctx := endpointsrequest.WithLatencyTrackers(t.Context())
		require.True(t, storage.IsNotFound(s.Get(ctx, podPrefix+"/ns/a", storage.GetOptions{}, newPod())))
		trackers, _ := endpointsrequest.LatencyTrackersFrom(ctx)
		assert.Positive(t, trackers.StorageTracker.GetLatency(), opener.name)
	}
}

// The stores' clients know no endpoints, so the pool has them checked: without it no consistent read would be answered
// from memory. A checker of the test's own starts from nothing.
func TestPoolChecksFeatures(t *testing.T) {
	checker := feature.DefaultFeatureSupportChecker
	feature.DefaultFeatureSupportChecker = feature.NewDefaultFeatureSupportChecker()
	t.Cleanup(func() { feature.DefaultFeatureSupportChecker = checker })

	etcd := startEtcd(t)
	ours().mustOpen(t, storageConfig(etcd.Endpoints()...))
	assert.Eventually(t, func() bool {
		return feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress)
	}, wait, tick)
}
