package freshness

import (
	"context"
	"testing"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestConnections: that a connection is lost and made again is told, and not that it is made.
func TestConnections(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{Proxy: true})
	client := connect(t, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(client, "/sentinel")
	if got, key := sentinel.Etcd(); got != client || key != "/sentinel" {
		t.Errorf("got %p and %q", got, key)
	}
	ctx, end := context.WithCancel(t.Context())
	changed, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		sentinel.Connections(ctx, func() { changed <- struct{}{} })
	}()
	if _, err := sentinel.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(changed) > 0 {
		t.Error("the first connection is told as another")
	}
	cluster.Proxy(0).Cut()
	<-changed
	cluster.Proxy(0).Heal()
	if _, err := sentinel.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-changed
	end()
	<-done

	NewSentinel(nil, "").Connections(t.Context(), nil) // and nothing is followed
}
