package upstreamsuite

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// RunTestList asks a recorder what the store listed from etcd on behalf of a call. Upstream puts the recorder into the etcd client's
// fields, where a product that makes its own clients lets nobody in. On the wire it also sees what goes past those fields.

// recording gives a recorder and the dial options that feed it with every list a client asks for.
func recording() (*storagetesting.KubernetesRecorder, []grpc.DialOption) {
	recorder := storagetesting.NewKubernetesRecorder(noStorage{})
	return recorder, []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			record(ctx, recorder, req)
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, desc, cc, method, opts...)
			if err != nil {
				return nil, err
			}
			return recordedStream{ClientStream: stream, recorder: recorder}, nil
		}),
	}
}

// record notes a list; a read of one key and a count are none.
func record(ctx context.Context, recorder *storagetesting.KubernetesRecorder, message any) {
	if r, ok := message.(*pb.RangeRequest); ok && len(r.RangeEnd) > 0 && !r.CountOnly {
		// It cannot fail: noStorage answers, and the recorder finds its note in ctx or makes none.
		_, _ = recorder.List(ctx, string(r.Key), kubernetes.ListOptions{Revision: r.Revision, Limit: r.Limit})
	}
}

// recordedStream notes a list that is answered as a stream.
type recordedStream struct {
	grpc.ClientStream
	recorder *storagetesting.KubernetesRecorder
}

func (s recordedStream) SendMsg(message any) error {
	record(s.Context(), s.recorder, message)
	return s.ClientStream.SendMsg(message)
}

// noStorage is what the recorder believes to wrap. The calls were sent already.
type noStorage struct{ kubernetes.Interface }

func (noStorage) List(context.Context, string, kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	return kubernetes.ListResponse{}, nil
}
