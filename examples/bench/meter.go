package main

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/stats"
)

// counts are what one side asked of etcd, as the server saw it.
type counts struct {
	// ranges are calls of KV.Range and KV.RangeStream, progress are progress
	// requests on Watch streams.
	ranges, progress int64
	// connections is the most that were open at once.
	connections int64
}

// meter counts what comes in at the address of one side.
type meter struct {
	mu   sync.Mutex
	now  counts // connections: their peak since begin
	open int64
}

func (m *meter) add(by counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.ranges += by.ranges
	m.now.progress += by.progress
	m.open += by.connections
	m.now.connections = max(m.now.connections, m.open)
}

// begin starts a measurement, and end of what it returns ends it.
func (m *meter) begin() (end func() counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = counts{connections: m.open}
	return func() counts {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.now
	}
}

// meters tell the sides apart by the server's address that a client dialed, so
// that nothing has to be put into the clients. Addresses that no side has are not
// counted.
type meters map[string]*meter

var _ stats.Handler = meters{}

type meterKey struct{}

func meterOf(ctx context.Context) *meter {
	m, _ := ctx.Value(meterKey{}).(*meter)
	return m
}

// TagConn implements stats.Handler. The contexts of all calls on a connection
// derive from its own.
func (ms meters) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	if m := ms[info.LocalAddr.String()]; m != nil {
		return context.WithValue(ctx, meterKey{}, m)
	}
	return ctx
}

// HandleConn implements stats.Handler.
func (meters) HandleConn(ctx context.Context, s stats.ConnStats) {
	m := meterOf(ctx)
	if m == nil {
		return
	}
	switch s.(type) {
	case *stats.ConnBegin:
		m.add(counts{connections: 1})
	case *stats.ConnEnd:
		m.add(counts{connections: -1})
	}
}

// TagRPC implements stats.Handler.
func (meters) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. Requests are counted when they come in, before
// they are answered.
func (meters) HandleRPC(ctx context.Context, s stats.RPCStats) {
	in, ok := s.(*stats.InPayload)
	if !ok {
		return
	}
	if m := meterOf(ctx); m != nil {
		m.add(countsOf(in.Payload))
	}
}

// compactorKey is what the compactor of each storage reads a second after it was
// opened: a late part of its set-up.
const compactorKey = "compact_rev_key"

func countsOf(request any) counts {
	switch request := request.(type) {
	case *pb.RangeRequest:
		if string(request.Key) != compactorKey {
			return counts{ranges: 1}
		}
	case *pb.WatchRequest:
		if _, ok := request.RequestUnion.(*pb.WatchRequest_ProgressRequest); ok {
			return counts{progress: 1}
		}
	}
	return counts{}
}
