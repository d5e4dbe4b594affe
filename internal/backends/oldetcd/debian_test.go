package oldetcd

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// raw is a storage without a cache.
func raw() (generic.StorageDecorator, func() error, error) {
	return generic.UndecoratedStorage, func() error { return nil }, nil
}

// rvfloor is what an API server has, with strategy auto: the backend is probed. It answers
// Gets from its cache too.
func rvfloor() (generic.StorageDecorator, func() error, error) {
	backends, err := apiserver.New(apiserver.Config{CachedGets: true, Registerer: prometheus.NewRegistry()})
	if err != nil {
		return nil, nil, err
	}
	return backends.StorageDecorator(), backends.Close, nil
}

func open(t *testing.T, kind sides.Kind, endpoint string) storage.Interface {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, end, err := sides.OpenOld(ctx, kind, endpoint)
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

func connect(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

type harness struct{ backends.EtcdHarness }

// WhyNoInitialEvents is that of a decoratortest.NoInitialEvents.
func (*harness) WhyNoInitialEvents() string {
	return "upstream's cache refuses them over an etcd that it does not ask for progress"
}

// TestPromise runs the conformance suite.
func TestPromise(t *testing.T) {
	endpoint := etcdlab.RunDebian(t)
	decoratortest.Run(t, func(t *testing.T) decoratortest.Harness {
		client := connect(t, endpoint)
		if _, err := client.Delete(t.Context(), "/registry/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		gate, err := etcdlab.NewWatchDelay(endpoint, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(gate.Close)
		return &harness{backends.EtcdHarness{Client: client, Harness: backends.Harness{
			Raw: open(t, raw, endpoint), Decorated: open(t, rvfloor, gate.Endpoint()), Gate: gate,
		}}}
	})
	if feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress) {
		t.Error("upstream asks it for progress")
	}
}

// TestLinear lets clients of two API servers read and write.
func TestLinear(t *testing.T) {
	endpoint := etcdlab.RunDebian(t)
	stores := []storage.Interface{open(t, rvfloor, endpoint), open(t, rvfloor, endpoint)}
	report, err := backends.Run(t.Context(), backends.Config{Stores: stores, Client: connect(t, endpoint), Operations: 600})
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for _, phase := range report.Phases {
		t.Logf("%d of %d reads were answered", phase.Answered, phase.Reads)
		answered += phase.Answered
	}
	if err := report.Err(); err != nil || answered == 0 {
		t.Errorf("%d reads were answered; %v", answered, err)
	}
}
