package etcdlab

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// calls are the open calls of one member, so that Close can end them. etcd itself
// waits some seconds for them, which every test with an open watch would pay.
type calls struct {
	stopped context.Context
	stop    context.CancelFunc

	mu   sync.Mutex
	open sync.WaitGroup // added to under mu, and only while stopped is not done
}

func newCalls() *calls {
	c := &calls{}
	c.stopped, c.stop = context.WithCancel(context.Background())
	return c
}

// end refuses new calls, cancels the open ones, and closes the channel it returns
// when all have ended.
func (c *calls) end() <-chan struct{} {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.open.Wait()
	}()
	return ended
}

// do runs one call under a context that end cancels.
func (c *calls) do(ctx context.Context, call func(context.Context) error) error {
	c.mu.Lock()
	if c.stopped.Err() != nil {
		c.mu.Unlock()
		return errClosing
	}
	c.open.Add(1)
	c.mu.Unlock()
	defer c.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	err := call(ctx)
	if err != nil && c.stopped.Err() != nil {
		return errClosing
	}
	return err
}

// errClosing is what clients of a dying server get from gRPC, too.
var errClosing = status.Error(codes.Unavailable, "etcdlab: the member is closing")

func (c *calls) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
			err = c.do(ctx, func(ctx context.Context) error {
				resp, err = handle(ctx, req)
				return err
			})
			return resp, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return c.do(stream.Context(), func(ctx context.Context) error {
				return handle(srv, endingStream{ServerStream: stream, ctx: ctx})
			})
		}),
	}
}

// endingStream is a stream with the context of do.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s endingStream) Context() context.Context { return s.ctx }
