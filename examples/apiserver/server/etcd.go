package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// lockName is a file in the data directory that a running server holds locked.
const lockName = "apiserver.lock"

// startEtcd gives the client URLs of the etcd that o asks for, and what stops it
// (nothing, where it was there before).
func startEtcd(ctx context.Context, o Options) (endpoints []string, stop func() error, err error) {
	if len(o.EtcdServers) > 0 {
		return o.EtcdServers, func() error { return nil }, pingEtcd(ctx, o.EtcdServers)
	}
	unlock, err := lockDataDir(o.DataDir)
	if err != nil {
		return nil, nil, err
	}
	// A folder that is removed at the end need not survive a crash.
	cluster, err := etcdlab.Start(etcdlab.Config{Dir: o.DataDir, Fsync: o.DataDir != ""})
	if err != nil {
		return nil, nil, errors.Join(err, unlock())
	}
	return cluster.Endpoints(), func() error { return errors.Join(cluster.Close(), unlock()) }, nil
}

// lockDataDir makes the folder and locks it. etcd locks its own files too, but
// waits for them without a limit and without a word.
func lockDataDir(dir string) (unlock func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir cannot be made, name a folder that can be written: %w", err)
	}
	lock, err := fileutil.TryLockFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("--data-dir %s is in use by another server: stop it, or name another folder", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir cannot be used, name a folder that can be written: %w", err)
	}
	return lock.Close, nil
}

// pingTimeout is how long an etcd that should be there may take to answer. The
// API server itself would try for 20 s and then speak of a gRPC connection.
const pingTimeout = 5 * time.Second

// pingEtcd fails when nobody answers at the endpoints.
func pingEtcd(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("--etcd-servers %v: %w", endpoints, err)
	}
	defer client.Close()
	if _, err := client.Get(ctx, etcdPrefix); err != nil {
		return fmt.Errorf("--etcd-servers %v gives no answer, check that etcd runs there and has a leader: %w", endpoints, err)
	}
	return nil
}
