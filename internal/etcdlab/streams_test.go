//go:build linux

package etcdlab

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestWatchStreamsAreThoseThatAreOpen(t *testing.T) {
	c := processes(t, Config{})
	client := Connect(t, c, ClientConfig{})
	streams := func() int {
		n, err := c.WatchStreams(soon(t))
		require.NoError(t, err)
		return n
	}
	require.Zero(t, streams())
	for range 2 { // on one stream
		created := <-client.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
		require.True(t, created.Created)
	}
	require.Equal(t, 1, streams())
	ctx, cancel := context.WithCancel(t.Context())
	other := clientv3.NewWatcher(client)
	ended := other.Watch(ctx, "k", clientv3.WithCreatedNotify())
	<-ended
	require.Equal(t, 2, streams())
	cancel()
	require.NoError(t, other.Close())
	for range ended {
	}
	for deadline := soon(t); streams() != 1; { // the member has yet to hear of it
		require.NoError(t, deadline.Err())
	}
	require.NoError(t, c.Kill(0))
	require.Zero(t, streams())
}
