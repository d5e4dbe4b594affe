package etcdlab

import (
	"context"
	"os/exec"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// RunBinary runs a program of etcd's, of whatever version, as one member for a test, which
// kills it at its end. It returns when that serves, with its endpoint and the version that
// it is.
func RunBinary(t T, binary string) (endpoint, version string) {
	t.Helper()
	hosts, err := freeHosts(2)
	if err != nil {
		t.Fatalf("etcdlab: %v", err)
	}
	endpoint, peer := "http://"+hosts[0], "http://"+hosts[1]
	server := exec.Command(binary, "--data-dir", t.TempDir(),
		"--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err := server.Start(); err != nil {
		t.Fatalf("etcdlab: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("etcdlab: %v", err)
	}
	defer client.Close()
	if _, err := client.Get(ctx, "ready"); err != nil { // waits for the connection
		t.Fatalf("etcdlab: %s: %v", binary, err)
	}
	status, err := client.Status(ctx, endpoint)
	if err != nil {
		t.Fatalf("etcdlab: %s: %v", binary, err)
	}
	return endpoint, status.Version
}
