//go:build !race

package apiserver

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// A dead server is noticed as soon as by the storage factory's client, and no sooner. Under
// the race detector the factory sometimes races with itself (it was seen once, in its
// dialer), so .ci/run has a step without it.
func TestKeepaliveMatchesUpstream(t *testing.T) {
	saw := map[string]pinged{}
	for _, opener := range []rawOpener{upstream, ours()} {
		synctest.Test(t, func(t *testing.T) {
			out := make(chan pinged, 10)
			pipes := lastingPipes{serve: func(conn net.Conn) { muteServer(conn, out) }}
			cfg := muteConfig()
			cfg.Transport.EgressLookup = pipes.lookup
			s, destroy, err := opener.open(cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var calling sync.WaitGroup
			calling.Go(func() { _ = s.Get(ctx, podPrefix+"/ns/a", storage.GetOptions{}, &example.Pod{}) })
			saw[opener.name] = <-out
			cancel()
			calling.Wait()
			destroy()
			pipes.serving.Wait()
		})
	}
	assert.Equal(t, saw["upstream"], saw["ours"])
	assert.Equal(t, pinged{First: keepaliveTime, Cut: keepaliveTimeout}, saw["ours"])
}
