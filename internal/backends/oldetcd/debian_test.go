package oldetcd

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// open opens a storage with strategy auto: the backend is probed. It answers Gets from its
// cache too.
func open(t *testing.T, endpoint string) storage.Interface {
	t.Helper()
	cfg := apiserver.Config{CachedGets: true, Registerer: prometheus.NewRegistry()}
	return backends.Open(t, sides.OpenOld, sides.With(cfg), endpoint)
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
		client := backends.Connect(t, endpoint)
		if _, err := client.Delete(t.Context(), "/registry/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		gate, err := etcdlab.NewWatchDelay(endpoint, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(gate.Close)
		return &harness{backends.EtcdHarness{Client: client, Harness: backends.Harness{
			Raw: backends.Open(t, sides.OpenOld, sides.Uncached, endpoint), Decorated: open(t, gate.Endpoint()), Gate: gate,
		}}}
	})
	if feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress) {
		t.Error("upstream asks it for progress")
	}
}

// TestLinear lets clients of two API servers read and write.
func TestLinear(t *testing.T) {
	endpoint := etcdlab.RunDebian(t)
	stores := []storage.Interface{open(t, endpoint), open(t, endpoint)}
	report, err := backends.Run(t.Context(), backends.Config{Stores: stores, Client: backends.Connect(t, endpoint), Operations: 600, PassesOver: true})
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
