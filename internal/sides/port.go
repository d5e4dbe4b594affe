package sides

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/stats"

	"github.com/rvfloor/rvfloor/internal/gate"
)

// Port is the etcd address of one side. Its methods may be called from any
// goroutine.
type Port struct {
	// Endpoint is what its clients dial.
	Endpoint string
	// Watches holds back all that etcd sends on the side's Watch streams, in order, while
	// its other calls are answered. A proxy cannot do that: upstream's clients have both on
	// one connection.
	Watches gate.Gate

	mu   sync.Mutex
	now  Counts // Connections: their peak since Measure
	open int64
}

// Counts are what one side asked of etcd, as the server saw it.
type Counts struct {
	// Ranges are calls of KV.Range and KV.RangeStream, Progress are progress
	// requests on Watch streams.
	Ranges, Progress int64
	// Connections is the most that were open at once.
	Connections int64
}

// Measure starts a measurement, and end of what it returns ends it.
func (p *Port) Measure() (end func() Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = Counts{Connections: p.open}
	return func() Counts {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.now
	}
}

func (p *Port) add(by Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Ranges += by.Ranges
	p.now.Progress += by.Progress
	p.open += by.Connections
	p.now.Connections = max(p.now.Connections, p.open)
}

// ports tell the sides apart by the server's address that a client dialed, so
// that nothing has to be put into the clients. Addresses that no side has are not
// counted.
type ports map[string]*Port

var _ stats.Handler = ports{}

type portKey struct{}

// portOf is nil for a context that no side's connection has.
func portOf(ctx context.Context) *Port {
	p, _ := ctx.Value(portKey{}).(*Port)
	return p
}

// TagConn implements stats.Handler. The contexts of all calls on a connection
// derive from its own.
func (ps ports) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	if p := ps[info.LocalAddr.String()]; p != nil {
		return context.WithValue(ctx, portKey{}, p)
	}
	return ctx
}

// HandleConn implements stats.Handler.
func (ports) HandleConn(ctx context.Context, s stats.ConnStats) {
	p := portOf(ctx)
	if p == nil {
		return
	}
	switch s.(type) {
	case *stats.ConnBegin:
		p.add(Counts{Connections: 1})
	case *stats.ConnEnd:
		p.add(Counts{Connections: -1})
	}
}

// TagRPC implements stats.Handler.
func (ports) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. Requests are counted when they come in, before
// they are answered.
func (ports) HandleRPC(ctx context.Context, s stats.RPCStats) {
	in, ok := s.(*stats.InPayload)
	if !ok {
		return
	}
	if p := portOf(ctx); p != nil {
		p.add(countsOf(in.Payload))
	}
}

// compactorKey is what the compactor of each storage reads a second after it was
// opened: a late part of its set-up.
const compactorKey = "compact_rev_key"

func countsOf(request any) Counts {
	switch request := request.(type) {
	case *pb.RangeRequest:
		if string(request.Key) != compactorKey {
			return Counts{Ranges: 1}
		}
	case *pb.WatchRequest:
		if _, ok := request.RequestUnion.(*pb.WatchRequest_ProgressRequest); ok {
			return Counts{Progress: 1}
		}
	}
	return Counts{}
}
