package promise

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

func TestPromise(t *testing.T) {
	over(t, func(t *testing.T, b backend) {
		decoratortest.Run(t, func(t *testing.T) decoratortest.Harness { return newHarness(t, b) })
	}, memory, atLength(sqlite), sqlites, atLength(postgres), postgreses)
}

// harness is what package apiserver wires, over the last kine, with a writer through the
// first. The watch of its cache is held between it and kine.
type harness struct {
	*kines
	gate          *etcdlab.WatchDelay
	store, writer storage.Interface
}

func newHarness(t *testing.T, b backend) *harness {
	t.Helper()
	h := &harness{kines: start(t, b)}
	var err error
	if h.gate, err = etcdlab.NewWatchDelay(h.last(), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.gate.Close)
	h.writer = open(t, raw, h.first())
	h.store = open(t, rvfloor, h.gate.Endpoint())
	return h
}

// raw is a storage without a cache.
func raw() (generic.StorageDecorator, func() error, error) {
	return generic.UndecoratedStorage, func() error { return nil }, nil
}

// rvfloor answers Gets from its cache too: what it does not answer is not judged. Over
// kine it is told to nudge: what kine says of progress can stand below a write until the
// next, where two came at once.
func rvfloor() (generic.StorageDecorator, func() error, error) {
	backends, err := apiserver.New(apiserver.Config{CachedGets: true, Strategy: decorator.StrategyNudge, Registerer: prometheus.NewRegistry()})
	if err != nil {
		return nil, nil, err
	}
	return backends.StorageDecorator(), backends.Close, nil
}

// open opens a storage of pods for a test, which ends it.
func open(t *testing.T, kind sides.Kind, endpoint string) storage.Interface {
	t.Helper()
	store, end, err := sides.OpenAt(t.Context(), kind, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func (h *harness) Store() storage.Interface  { return h.store }
func (h *harness) Writer() storage.Interface { return h.writer }
func (h *harness) HoldWatch()                { h.gate.Hold() }
func (h *harness) ReleaseWatch()             { h.gate.Release() }
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

func (h *harness) WriteElsewhere(ctx context.Context) (uint64, error) { return h.writeElsewhere(ctx) }

// WhyPartial is that of a decoratortest.PartialRevisions.
func (h *harness) WhyPartial() string { return "kine changes one object at a revision" }

// values are the texts that unique has answered.
var values atomic.Int64

// unique is a text that was not there before.
func unique() string { return fmt.Sprintf("value-%d", values.Add(1)) }

// writeElsewhere creates an object of another resource, through the first kine, as an API
// server does. (A Put of a key that is there can end kine's process, on PostgreSQL.)
func (k *kines) writeElsewhere(ctx context.Context) (uint64, error) {
	key := "/registry/configmaps/default/" + unique()
	resp, err := k.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "")).Commit()
	if err != nil {
		return 0, err
	}
	return uint64(resp.Header.Revision), nil
}
