package sides

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/rvfloor/rvfloor/internal/gate"
)

// gateWatches is a grpc.StreamServerInterceptor.
func gateWatches(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if p := portOf(stream.Context()); p != nil && info.FullMethod == pb.Watch_Watch_FullMethodName {
		stream = gatedStream{ServerStream: stream, gate: &p.Watches}
	}
	return handle(srv, stream)
}

type gatedStream struct {
	grpc.ServerStream
	gate *gate.Gate
}

func (s gatedStream) SendMsg(m any) error {
	if err := s.gate.Pass(s.Context()); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}
