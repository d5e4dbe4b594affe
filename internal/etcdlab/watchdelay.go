package etcdlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rvfloor/rvfloor/internal/gate"
)

// WatchDelay is a gRPC proxy before etcd. What etcd sends on watch streams arrives
// late, the end of a stream too; requests on them and all other calls pass at once.
// So a cache lags behind while the reads and writes of the same client, on the same
// connection, do not. ([Proxy] knows bytes only and delays all that a connection
// carries.)
type WatchDelay struct {
	listener net.Listener
	server   *grpc.Server
	etcd     *grpc.ClientConn
	delay    time.Duration
	watches  gate.Gate
	wg       sync.WaitGroup
}

// NewWatchDelay listens on loopback and forwards to target, which is written as for
// [NewProxy]. Each message of a watch stream arrives delay after etcd has sent it, in
// order. It is a latency, not a rate: messages wait side by side. An etcd that cannot
// be reached is Unavailable to the clients.
func NewWatchDelay(target string, delay time.Duration) (*WatchDelay, error) {
	dial, err := dialer(target)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("etcdlab: watch delay: %w", err)
	}
	w, err := newWatchDelay(listener, dial, delay)
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("etcdlab: watch delay: %w", err)
	}
	return w, nil
}

func newWatchDelay(listener net.Listener, dial dialFunc, delay time.Duration) (*WatchDelay, error) {
	w := &WatchDelay{listener: listener, delay: delay}
	var err error
	w.etcd, err = grpc.NewClient("passthrough:///etcd",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// How large a message may be is for the two ends to say.
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	w.server = grpc.NewServer(grpc.UnknownServiceHandler(w.forward), grpc.WaitForHandlers(true),
		grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
		// As etcd: gRPC's own default cuts off clients that ping each half minute.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}))
	w.wg.Go(func() { w.server.Serve(listener) })
	return w, nil
}

// Endpoint is where the proxy listens, as clientv3 and storagebackend take it.
func (w *WatchDelay) Endpoint() string { return "http://" + w.listener.Addr().String() }

// Hold holds back, until Release, what etcd sends on watch streams from now on, and what
// is late.
func (w *WatchDelay) Hold() { w.watches.Hold() }

// Release lets go what was held, in order. It may be called when nothing is held.
func (w *WatchDelay) Release() { w.watches.Release() }

// Close ends all calls, stops listening and returns when all goroutines of the proxy
// have ended. It may be called again.
func (w *WatchDelay) Close() {
	w.server.Stop()
	w.wg.Wait()
	w.etcd.Close()
}

// forward handles one call, unary or stream. Metadata of the replies is left out:
// etcd sends none.
func (w *WatchDelay) forward(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	md, _ := metadata.FromIncomingContext(ctx)
	etcd, err := w.etcd.NewStream(metadata.NewOutgoingContext(ctx, md), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	delay, pass := time.Duration(0), func(context.Context) error { return nil }
	if method == pb.Watch_Watch_FullMethodName {
		delay, pass = w.delay, w.watches.Pass
	}
	replies := make(chan reply, repliesWaiting)
	w.wg.Go(func() { forwardRequests(client, etcd) })
	w.wg.Go(func() { readReplies(ctx, etcd, delay, replies) })
	return sendReplies(ctx, client, replies, pass)
}

// forwardRequests ends with the client's last request or with the call. That one
// could not be sent on is said by the replies.
func forwardRequests(client grpc.ServerStream, etcd grpc.ClientStream) {
	for {
		var m message
		err := client.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			etcd.CloseSend()
		}
		if err != nil || etcd.SendMsg(&m) != nil {
			return
		}
	}
}

// repliesWaiting bounds what one call holds back in memory; beyond it etcd feels
// backpressure.
const repliesWaiting = 1024

// reply is a message for the client, or the end of the call.
type reply struct {
	message
	err error // io.EOF: a good end
	due time.Time
}

func readReplies(ctx context.Context, etcd grpc.ClientStream, delay time.Duration, replies chan<- reply) {
	for {
		var r reply
		r.err = etcd.RecvMsg(&r.message)
		r.due = time.Now().Add(delay)
		select {
		case replies <- r:
		case <-ctx.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

func sendReplies(ctx context.Context, client grpc.ServerStream, replies <-chan reply, pass func(context.Context) error) error {
	for {
		select {
		case r := <-replies:
			select {
			case <-time.After(time.Until(r.due)):
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
			if err := pass(ctx); err != nil {
				return status.FromContextError(err).Err()
			}
			if errors.Is(r.err, io.EOF) {
				return nil
			}
			if r.err != nil {
				return r.err
			}
			if err := client.SendMsg(&r.message); err != nil {
				return err
			}
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// message is one as it is on the wire.
type message []byte

// rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*message), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*message) = data
	return nil
}

// Name is that of the codec at both ends.
func (rawCodec) Name() string { return "proto" }
