package backends

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// Opener is sides.OpenAt or sides.OpenOld.
type Opener func(context.Context, sides.Kind, ...string) (storage.Interface, func() error, error)

// Open opens a storage of pods for a test, and ends it with that.
func Open(t testing.TB, open Opener, kind sides.Kind, endpoints ...string) storage.Interface {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, end, err := open(ctx, kind, endpoints...)
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

// Connect makes a client for a test, and closes it with that.
func Connect(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
