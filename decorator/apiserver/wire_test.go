package apiserver

import (
	"context"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// wire notes which of a client's connections carried what. It goes in as a stats handler.
type wire struct {
	mu    sync.Mutex
	conns map[string]*carried // by local address
}

// carried is what one connection carried of some keys.
type carried struct {
	ranges, txns, watches map[string]bool // by key: what was read, written, watched
}

func newWire() *wire { return &wire{conns: map[string]*carried{}} }

func (w *wire) option() grpc.DialOption { return grpc.WithStatsHandler(w) }

type rpcKey struct{}

// rpcTag collects the two halves of a call: what it asks for, and where it went.
type rpcTag struct {
	mu   sync.Mutex
	addr string
	asks []any
}

func (w *wire) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, rpcKey{}, &rpcTag{})
}

func (w *wire) HandleRPC(ctx context.Context, s stats.RPCStats) {
	tag := ctx.Value(rpcKey{}).(*rpcTag)
	tag.mu.Lock()
	defer tag.mu.Unlock()
	switch s := s.(type) {
	case *stats.OutHeader:
		tag.addr = s.LocalAddr.String()
	case *stats.OutPayload:
		tag.asks = append(tag.asks, s.Payload)
	}
	if tag.addr == "" {
		return
	}
	for _, ask := range tag.asks {
		w.note(tag.addr, ask)
	}
	tag.asks = nil
}

func (w *wire) note(addr string, ask any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.conns[addr]
	if c == nil {
		c = &carried{ranges: map[string]bool{}, txns: map[string]bool{}, watches: map[string]bool{}}
		w.conns[addr] = c
	}
	switch ask := ask.(type) {
	case *pb.RangeRequest:
		c.ranges[string(ask.Key)] = true
	case *pb.TxnRequest:
		for _, op := range ask.Success {
			if put := op.GetRequestPut(); put != nil {
				c.txns[string(put.Key)] = true
			}
		}
	case *pb.WatchRequest:
		if create := ask.GetCreateRequest(); create != nil {
			c.watches[string(create.Key)] = true
		}
	}
}

func (w *wire) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (w *wire) HandleConn(context.Context, stats.ConnStats) {}

// watching answers the connections that carry a watch of a key, and what else they carried.
func (w *wire) watching(key string) (on, others []carried) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		copied := carried{ranges: maps.Clone(c.ranges), txns: maps.Clone(c.txns), watches: maps.Clone(c.watches)}
		if c.watches[key] {
			on = append(on, copied)
		} else {
			others = append(others, copied)
		}
	}
	return on, others
}

// under says whether one of the keys has a prefix.
func under(keys map[string]bool, prefix string) bool {
	for key := range keys {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// trackedConns counts the connections that an egress dialer made and that are still open.
type trackedConns struct {
	mu         sync.Mutex
	made, open int
}

func (c *trackedConns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	c.open++
	return &trackedConn{Conn: conn, closed: sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	})}, nil
}

// count is how many were made.
func (c *trackedConns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// awaitNone waits until all are closed. The feature check's, which nobody joins, ends in its own time.
func (c *trackedConns) awaitNone(t *testing.T) {
	t.Helper()
	assert.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.open == 0
	}, wait, tick, "connections are still open")
}

type trackedConn struct {
	net.Conn
	closed func()
}

func (c *trackedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}
