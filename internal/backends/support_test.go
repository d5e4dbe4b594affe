package backends_test

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// TestMain checks at the end that nothing is left. Upstream's waits for a fresh cache
// know no context and outlive their cache by up to 3 s, hence the attempts.
func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // what goes wrong here is provoked
	code := m.Run()
	var err error
	for range 10 {
		if err = goleak.Find(); err == nil {
			break
		}
	}
	if code == 0 && err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// decorated is what an API server has with rvfloor.
func decorated(strategy decorator.Strategy) sides.Kind {
	return sides.With(apiserver.Config{Registerer: prometheus.NewRegistry(), Strategy: strategy})
}

// newStore makes a database for a test.
func newStore(t *testing.T, cfg fdbshim.Config) *fdbshim.Store {
	t.Helper()
	store := fdbshim.NewStore(cfg)
	t.Cleanup(store.Close)
	return store
}

func serve(t *testing.T, store *fdbshim.Store, faults fdbshim.Faults) *fdbshim.Server {
	t.Helper()
	opts := fdbshim.Options{Faults: faults}
	if faults.WatchesLag {
		opts.Lag = 20 * time.Millisecond // all of the suite waits for watches
	}
	server, err := fdbshim.Serve(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func connect(t *testing.T, server *fdbshim.Server) *clientv3.Client {
	t.Helper()
	return backends.Connect(t, server.Endpoint())
}

func open(t *testing.T, kind sides.Kind, server *fdbshim.Server) storage.Interface {
	t.Helper()
	return backends.Open(t, sides.OpenAt, kind, server.Endpoint())
}
