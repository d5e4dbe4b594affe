package backends

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// Harness is a decoratortest.Harness of pods, over any backend.
type Harness struct {
	// Decorated is an API server's storage, as sides.OpenAt makes it, and Raw another of the
	// same backend without a cache.
	Decorated, Raw storage.Interface
	// Gate holds back what comes on Decorated's watches, as gate.Gate and
	// etcdlab.WatchDelay do.
	Gate interface {
		Hold()
		Release()
	}
}

// Store is Decorated.
func (h *Harness) Store() storage.Interface { return h.Decorated }

// Writer is Raw.
func (h *Harness) Writer() storage.Interface { return h.Raw }

// HoldWatch closes the gate.
func (h *Harness) HoldWatch() { h.Gate.Hold() }

// ReleaseWatch opens it.
func (h *Harness) ReleaseWatch() { h.Gate.Release() }

// NewList is an empty list of pods.
func (h *Harness) NewList() runtime.Object { return &example.PodList{} }

// NewObject is a pod.
func (h *Harness) NewObject(namespace, name string) runtime.Object {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// Key is that of a pod, or the prefix of a namespace's or of all.
func (h *Harness) Key(namespace, name string) string {
	if name == "" {
		return sides.PodPrefix + namespace
	}
	return sides.PodKey(namespace, name)
}

// EtcdHarness is a Harness whose backend takes any transaction and any Put, as etcd.
type EtcdHarness struct {
	Harness
	// Client is one of the backend.
	Client *clientv3.Client
}

// DeleteTogether makes it a decoratortest.Transactor.
func (h *EtcdHarness) DeleteTogether(ctx context.Context, keys ...string) error {
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete("/registry"+key))
	}
	_, err := h.Client.Txn(ctx).Then(ops...).Commit()
	return err
}

// WriteElsewhere makes it a decoratortest.OtherWriter.
func (h *EtcdHarness) WriteElsewhere(ctx context.Context) (uint64, error) {
	resp, err := h.Client.Put(ctx, sides.ElsewhereKey, "")
	if err != nil {
		return 0, err
	}
	return uint64(resp.Header.Revision), nil
}
