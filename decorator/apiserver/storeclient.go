package apiserver

import (
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// newStoreClient makes the client of one raw store: a value of its own, whose calls go over the connection of a pooled
// client, and whose watches go where watcher says. KV calls are timed for the request they serve.
//
// A clientv3.Client must not be copied and cannot be told to use another's connection, but it can be made without one and
// given its parts; each part that owns something (the lease keeper, the watcher) is the store's own. So closing the store's
// client ends these and its context, and leaves the pooled client alone; closing the pooled client ends the store's
// context too. What such a client cannot do is answer Endpoints, which the etcd3 store wants for the feature check: see
// checkFeatures.
func newStoreClient(pooled *clientv3.Client, watcher clientv3.Watcher) *kubernetes.Client {
	client := clientv3.NewCtxClient(pooled.Ctx(), clientv3.WithZapLogger(pooled.GetLogger()))
	client.KV = etcd3.NewETCDLatencyTracker(clientv3.NewKV(pooled))
	client.Lease = clientv3.NewLease(pooled)
	client.Watcher = watcher
	client.Cluster = pooled.Cluster
	client.Auth = pooled.Auth
	client.Maintenance = pooled.Maintenance
	store := &kubernetes.Client{Client: client}
	store.Kubernetes = store
	return store
}
