package apiserver

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// pinged is what a server that never answers a ping saw of a client's connection with a call on it.
type pinged struct {
	First time.Duration // from the call to the first ping
	Cut   time.Duration // from the ping to the end of the connection
}

// muteServer speaks just enough HTTP/2 over one connection to let a client send a call, and answers nothing else.
func muteServer(conn net.Conn, out chan<- pinged) {
	var saw pinged
	var call, ping time.Time
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		switch f := frame.(type) {
		case nil:
			if err != nil && !ping.IsZero() {
				saw.Cut = time.Since(ping)
				out <- saw
			}
			return
		case *http2.SettingsFrame:
			if !f.IsAck() && framer.WriteSettingsAck() != nil {
				return
			}
		case *http2.HeadersFrame:
			call = time.Now()
		case *http2.PingFrame:
			if ping.IsZero() && !f.IsAck() {
				ping = time.Now()
				saw.First = ping.Sub(call)
			}
		}
	}
}

// lastingPipes dials connections in memory, each to serve. Closing them all ends the servers.
type lastingPipes struct {
	serve   func(net.Conn)
	serving sync.WaitGroup
}

func (p *lastingPipes) lookup(egressselector.NetworkContext) (utilnet.DialFunc, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		p.serving.Go(func() {
			defer server.Close()
			p.serve(server)
		})
		return client, nil
	}, nil
}

// A server that cannot be reached fails a resource after dialTimeout, as it does upstream (TestUpstreamHasNotChanged: a run
// of the factory would leave its client behind in the bubble), and nothing is left dialing.
func TestDialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := muteConfig()
		cfg.Transport.EgressLookup = unreachable
		start := time.Now()
		_, _, err := ours().open(cfg)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "etcd.invalid:2379")
		assert.Equal(t, dialTimeout, time.Since(start))
	})
}

// Whoever closes does not wait for a dial that hangs, and says why it ended.
func TestDialIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := errors.New("closing")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(closing) })
		cfg := muteConfig()
		cfg.Transport.EgressLookup = unreachable
		start := time.Now()
		_, err := dial(ctx, cfg.Transport)
		assert.ErrorIs(t, err, closing)
		assert.Equal(t, time.Second, time.Since(start))
	})
}

// muteConfig has no compactor, whose goroutines a bubble need not know.
func muteConfig() *storagebackend.ConfigForResource {
	cfg := storageConfig("http://etcd.invalid:2379")
	cfg.CompactionInterval = 0
	return cfg
}

// unreachable looks up a dialer whose connections never come.
func unreachable(egressselector.NetworkContext) (utilnet.DialFunc, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil
}
