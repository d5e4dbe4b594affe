package backends_test

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// harness is an API server's storage over one process of a database, and a writer
// over another, without faults.
type harness struct {
	store, writer storage.Interface
	server        *fdbshim.Server // that of the store
	client        *clientv3.Client
}

func newHarness(t *testing.T, m mode) decoratortest.Harness {
	t.Helper()
	database := newStore(t, m.config)
	good := serve(t, database, fdbshim.Faults{})
	h := &harness{client: connect(t, good), server: serve(t, database, m.faults)}
	h.writer = open(t, undecorated, good)
	h.store = open(t, decorated(m.strategy), h.server)
	t.Cleanup(h.ReleaseWatch)
	return h
}

func (h *harness) Store() storage.Interface  { return h.store }
func (h *harness) Writer() storage.Interface { return h.writer }
func (h *harness) HoldWatch()                { h.server.HoldWatches() }
func (h *harness) ReleaseWatch()             { h.server.ReleaseWatches() }
func (h *harness) NewList() runtime.Object   { return &example.PodList{} }

func (h *harness) NewObject(namespace, name string) runtime.Object {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func (h *harness) Key(namespace, name string) string {
	if name == "" {
		return sides.PodPrefix + namespace
	}
	return sides.PodPrefix + namespace + "/" + name
}

// DeleteTogether makes the harness a decoratortest.Transactor.
func (h *harness) DeleteTogether(ctx context.Context, keys ...string) error {
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete("/registry"+key))
	}
	_, err := h.client.Txn(ctx).Then(ops...).Commit()
	return err
}

// WriteElsewhere makes it a decoratortest.OtherWriter.
func (h *harness) WriteElsewhere(ctx context.Context) (uint64, error) {
	resp, err := h.client.Put(ctx, sides.ElsewhereKey, "")
	if err != nil {
		return 0, err
	}
	return uint64(resp.Header.Revision), nil
}
