package promise

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

func TestPromise(t *testing.T) {
	over(t, func(t *testing.T, b backend) {
		if b.strategy == "" { // one probe for all: over SQL it takes seconds
			b.strategy = verdict(t, start(t, b)).Strategies[0]
		}
		decoratortest.Run(t, func(t *testing.T) decoratortest.Harness { return newHarness(t, b) })
	}, memory, atLength(sqlite), sqlites, atLength(by(decorator.StrategyNudge, postgres)), by(decorator.StrategyNudge, postgreses))
}

// harness is a backends.Harness over the last kine, with a writer through the first. The
// watch of its cache is held between it and kine.
type harness struct {
	backends.Harness
	*kines
}

func newHarness(t *testing.T, b backend) *harness {
	t.Helper()
	k := start(t, b)
	gate, err := etcdlab.NewWatchDelay(k.last(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	return &harness{backends.Harness{Raw: open(t, sides.Uncached, k.first()), Decorated: open(t, k.rvfloor(), gate.Endpoint()), Gate: gate}, k}
}

// rvfloor answers Gets from its cache too: what it does not answer is not judged.
func (k *kines) rvfloor() sides.Kind {
	registry := prometheus.NewRegistry()
	k.metrics = append(k.metrics, registry)
	return sides.With(apiserver.Config{CachedGets: true, Strategy: k.strategy, Registerer: registry})
}

// judgeRewinds fails a test whose kines were taken for restored. None is: what kine answers
// to a Create is at times an older revision than the one it wrote.
func (k *kines) judgeRewinds(t *testing.T) {
	t.Helper()
	for _, metrics := range k.metrics {
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "rvfloor_rewinds_total" {
				continue
			}
			for _, m := range family.GetMetric() {
				if n := m.GetCounter().GetValue(); n > 0 {
					t.Errorf("%v rewinds were seen, and there was none: %v", n, m)
				}
			}
		}
	}
}

func open(t *testing.T, kind sides.Kind, endpoints ...string) storage.Interface {
	t.Helper()
	return backends.Open(t, sides.OpenAt, kind, endpoints...)
}

// WriteElsewhere makes it a decoratortest.OtherWriter.
func (h *harness) WriteElsewhere(ctx context.Context) (uint64, error) { return h.writeElsewhere(ctx) }

// WhyPartial is that of a decoratortest.PartialRevisions.
func (h *harness) WhyPartial() string { return "kine changes one object at a revision" }

// names are those that unique has answered.
var names atomic.Int64

// unique is a name that no other object has.
func unique() string { return fmt.Sprintf("object-%d", names.Add(1)) }

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
