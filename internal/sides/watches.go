package sides

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// HoldWatches holds back all that etcd sends on the side's Watch streams from now
// on, until ReleaseWatches, while its other calls are answered. A proxy cannot do
// that: upstream's clients have both on one connection.
func (p *Port) HoldWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// ReleaseWatches lets go what was held back, in order. It may be called again.
func (p *Port) ReleaseWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
}

// pass waits while watches are held back.
func (p *Port) pass(ctx context.Context) error {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gateWatches is a grpc.StreamServerInterceptor.
func gateWatches(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if p := portOf(stream.Context()); p != nil && info.FullMethod == pb.Watch_Watch_FullMethodName {
		stream = gatedStream{ServerStream: stream, port: p}
	}
	return handle(srv, stream)
}

type gatedStream struct {
	grpc.ServerStream
	port *Port
}

func (s gatedStream) SendMsg(m any) error {
	if err := s.port.pass(s.Context()); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}
