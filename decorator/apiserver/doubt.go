package apiserver

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc/stats"

	"github.com/rvfloor/rvfloor/decorator"
)

// doubting tells a backend of each connection of its clients that ends or is made: what answers next may have been restored
// meanwhile. So no write that was made of what a cache suggests goes to a backend that nobody has checked since, but for
// one that was made in the very moment in which the connection was lost, and then found another at once. It goes in as a
// stats handler, which alone hears of connections.
type doubting struct {
	backend atomic.Pointer[decorator.Backend]
}

// HandleConn is stats.Handler.
func (d *doubting) HandleConn(context.Context, stats.ConnStats) {
	if backend := d.backend.Load(); backend != nil { // nil: the first connections
		backend.Doubt()
	}
}

// TagConn is stats.Handler.
func (*doubting) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC is stats.Handler.
func (*doubting) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC is stats.Handler.
func (*doubting) HandleRPC(context.Context, stats.RPCStats) {}
