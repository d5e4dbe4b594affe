package etcdlab

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// T is what [Run], [RunProcesses] and [Connect] need of *testing.T, *testing.B and the like.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
	Cleanup(func())
	TempDir() string
}

// Run starts a cluster for a test, which ends with it. Its data is in the test's
// temporary folder unless cfg.Dir is set.
func Run(t T, cfg Config) *Cluster {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	c, err := Start(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Fatalf("etcdlab: close: %v", err)
		}
	})
	return c
}

// RunProcesses is [Run] for [StartProcesses]. A test that fails shows how the
// members' logs end.
func RunProcesses(t T, cfg Config) *Processes {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	c, err := StartProcesses(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i := range c.all() {
				t.Logf("the log of member %d ends:\n%s", i, logEnd(c.Log(i)))
			}
		}
		if err := c.Close(); err != nil {
			t.Fatalf("etcdlab: close: %v", err)
		}
	})
	return c
}

// Connect makes a client of c, a [Cluster] or [Processes], for a test, which closes
// it at its end.
func Connect(t T, c interface {
	Client(context.Context, ClientConfig) (*clientv3.Client, error)
}, cfg ClientConfig) *clientv3.Client {
	t.Helper()
	client, err := c.Client(context.Background(), cfg)
	if err != nil {
		t.Fatalf("etcdlab: client: %v", err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
