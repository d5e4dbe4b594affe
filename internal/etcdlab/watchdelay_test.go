package etcdlab

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// answering is an etcd that answers each request at once, and ends a watch stream
// with its client, or at a cancel request with an error.
type answering struct {
	pb.UnimplementedWatchServer
	pb.UnimplementedKVServer
	requested chan time.Time // when requests came on watch streams
}

func (a *answering) Watch(stream pb.Watch_WatchServer) error {
	for id := int64(0); ; id++ {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		a.requested <- time.Now()
		if request.GetCancelRequest() != nil {
			return status.Error(codes.OutOfRange, "canceled")
		}
		if err := stream.Send(&pb.WatchResponse{WatchId: id}); err != nil {
			return err
		}
	}
}

// Range counts the caller's tokens, which are metadata.
func (a *answering) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Count: int64(len(metadata.ValueFromIncomingContext(ctx, rpctypes.TokenFieldNameGRPC)))}, nil
}

// inMemory calls f, inside a bubble, with a connection to an answering etcd through
// a proxy that delays watches.
func inMemory(t *testing.T, delay time.Duration, f func(*testing.T, *WatchDelay, *grpc.ClientConn, *answering)) {
	synctest.Test(t, func(t *testing.T) {
		a := &answering{requested: make(chan time.Time, 10)}
		behind, before := bufconn.Listen(1<<20), bufconn.Listen(1<<20)
		server := grpc.NewServer(grpc.WaitForHandlers(true))
		pb.RegisterWatchServer(server, a)
		pb.RegisterKVServer(server, a)
		go server.Serve(behind)
		defer server.Stop()
		w, err := newWatchDelay(before, behind.DialContext, delay)
		require.NoError(t, err)
		defer w.Close()
		conn, err := grpc.NewClient("passthrough:///proxy", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second}),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return before.DialContext(ctx) }))
		require.NoError(t, err)
		defer conn.Close()
		f(t, w, conn, a)
	})
}

func TestWatchDelayIsALatencyOfWatchesAlone(t *testing.T) {
	const delay, gap = 300 * time.Millisecond, 10 * time.Millisecond
	inMemory(t, delay, func(t *testing.T, _ *WatchDelay, conn *grpc.ClientConn, a *answering) {
		stream, err := pb.NewWatchClient(conn).Watch(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		for i := range 3 {
			require.NoError(t, stream.Send(&pb.WatchRequest{}))
			require.Equal(t, time.Duration(i)*gap, (<-a.requested).Sub(begun), "requests are not delayed")
			resp, err := pb.NewKVClient(conn).Range(metadata.AppendToOutgoingContext(t.Context(), rpctypes.TokenFieldNameGRPC, "a token"), &pb.RangeRequest{})
			require.NoError(t, err)
			require.EqualValues(t, 1, resp.Count, "metadata is passed on")
			require.Equal(t, time.Duration(i)*gap, time.Since(begun), "other calls are not delayed")
			time.Sleep(gap)
		}
		require.NoError(t, stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{}}))
		for i := range 3 {
			resp, err := stream.Recv()
			require.NoError(t, err)
			require.EqualValues(t, i, resp.WatchId, "order")
			// Each waits on its own: were they to queue for the delay, the last would need 3 of it.
			require.Equal(t, delay+time.Duration(i)*gap, time.Since(begun))
		}
		_, err = stream.Recv()
		require.Equal(t, codes.OutOfRange, status.Code(err), "etcd's own error: %v", err)
		require.Equal(t, delay+3*gap, time.Since(begun), "the end is delayed, too")
	})
}

func TestWatchDelayEndsWithItsClient(t *testing.T) {
	inMemory(t, time.Hour, func(t *testing.T, _ *WatchDelay, conn *grpc.ClientConn, a *answering) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := pb.NewWatchClient(conn).Watch(ctx)
		require.NoError(t, err)
		require.NoError(t, stream.Send(&pb.WatchRequest{}))
		_, err = stream.Recv()
		require.NoError(t, err, "an hour of the client's pings ends nothing")
		<-a.requested

		begun := time.Now()
		require.NoError(t, stream.Send(&pb.WatchRequest{}))
		<-a.requested
		cancel()
		_, err = stream.Recv()
		require.Equal(t, codes.Canceled, status.Code(err))
		synctest.Wait()
		require.Less(t, time.Since(begun), time.Hour, "nobody waits for what nobody wants")
	})
}

func TestWatchDelayHolds(t *testing.T) {
	inMemory(t, 0, func(t *testing.T, w *WatchDelay, conn *grpc.ClientConn, a *answering) {
		stream, err := pb.NewWatchClient(conn).Watch(t.Context())
		require.NoError(t, err)
		w.Hold()
		w.Hold() // once more changes nothing
		for range 2 {
			require.NoError(t, stream.Send(&pb.WatchRequest{}))
			<-a.requested
		}
		received := make(chan int64, 2)
		go func() {
			for range 2 {
				resp, err := stream.Recv()
				if err != nil {
					t.Error(err)
				}
				received <- resp.GetWatchId()
			}
		}()
		synctest.Wait()
		require.Empty(t, received)
		_, err = pb.NewKVClient(conn).Range(t.Context(), &pb.RangeRequest{})
		require.NoError(t, err, "other calls are not held")
		require.Empty(t, received)
		w.Release()
		w.Release()
		require.EqualValues(t, 0, <-received)
		require.EqualValues(t, 1, <-received)
	})
}

// TestWatchDelayOfEtcd has clientv3 use a real one, whose calls are of all kinds.
func TestWatchDelayOfEtcd(t *testing.T) {
	c := start(t, Config{})
	const delay = 30 * time.Millisecond
	w, err := NewWatchDelay(c.Endpoints()[0], delay)
	require.NoError(t, err)
	defer w.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{w.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()

	ctx := clientv3.WithRequireLeader(soon(t))
	watch := client.Watch(ctx, "k", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)
	for i := range 3 {
		value := string(rune('a' + i))
		begun := time.Now()
		revision := put(t, client, "k", value)
		require.Equal(t, value, get(t, client, "k"))
		event := <-watch
		require.GreaterOrEqual(t, time.Since(begun), delay)
		require.Len(t, event.Events, 1)
		require.Equal(t, revision, event.Events[0].Kv.ModRevision)
	}
	require.NoError(t, client.RequestProgress(ctx))
	reply := <-watch
	require.True(t, reply.IsProgressNotify())

	now := put(t, client, "k", "z")
	_, err = client.Compact(ctx, now)
	require.NoError(t, err)
	_, err = client.Get(ctx, "k", clientv3.WithRev(now-1))
	require.ErrorIs(t, err, rpctypes.ErrCompacted)
	for _, key := range []string{"l1", "l2", "l3", "l4"} {
		put(t, client, key, string(make([]byte, 1<<20+1<<18)))
	}
	large, err := client.Get(ctx, "l", clientv3.WithPrefix())
	require.NoError(t, err, "larger than gRPC's default, not than clientv3's")
	require.Len(t, large.Kvs, 4)
}

func TestWatchDelayTarget(t *testing.T) {
	_, err := NewWatchDelay("ftp://x", 0)
	require.ErrorContains(t, err, "use host:port")
}
