package apiserver

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"

	"github.com/rvfloor/rvfloor/decorator"
)

// doubting tells a backend of each connection that its clients make: what is at the other end may have been restored
// meanwhile. It comes before the first call on the connection, so that no write goes over it that was made of what a cache
// suggests and that nobody has checked since. It goes in as a stats handler, which alone hears of connections.
type doubting struct {
	backend atomic.Pointer[decorator.Backend]
}

// HandleConn is stats.Handler.
func (d *doubting) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); !ok {
		return
	}
	if backend := d.backend.Load(); backend != nil { // nil: the first ones
		backend.Doubt()
	}
}

// TagConn is stats.Handler.
func (*doubting) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC is stats.Handler.
func (*doubting) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC is stats.Handler.
func (*doubting) HandleRPC(context.Context, stats.RPCStats) {}
