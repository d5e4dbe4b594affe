package etcdlab

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func TestCountersCountAScriptExactly(t *testing.T) {
	c := start(t, Config{})
	counters := &Counters{}
	client := Connect(t, c, ClientConfig{Counters: counters})
	require.Zero(t, counters.Snapshot().RPCs)

	put(t, client, "k", "v")
	before := counters.Snapshot()
	for range 3 {
		get(t, client, "k")
	}
	put(t, client, "k", "v")
	put(t, client, "k", "v")
	_, err := client.Txn(t.Context()).Then(clientv3.OpPut("k", "t"), clientv3.OpGet("k")).Commit()
	require.NoError(t, err)
	granted, err := client.Grant(t.Context(), 60)
	require.NoError(t, err)
	_, err = client.Revoke(t.Context(), granted.ID)
	require.NoError(t, err)

	// Two watches on the client's shared stream, one on a stream of its own.
	shared, endShared := context.WithCancel(t.Context())
	defer endShared()
	a := client.Watch(shared, "a", clientv3.WithCreatedNotify())
	b := client.Watch(shared, "b", clientv3.WithCreatedNotify())
	watcher := clientv3.NewWatcher(client)
	own := watcher.Watch(t.Context(), "c", clientv3.WithCreatedNotify())
	for _, w := range []clientv3.WatchChan{a, b, own} {
		require.True(t, (<-w).Created)
	}
	for range 2 {
		require.NoError(t, client.RequestProgress(shared))
		// One reply on the wire reaches both watches of the stream.
		ra, rb := <-a, <-b
		require.True(t, ra.IsProgressNotify())
		require.True(t, rb.IsProgressNotify())
	}
	require.NoError(t, watcher.RequestProgress(t.Context()))
	reply := <-own
	require.True(t, reply.IsProgressNotify())
	put(t, client, "a", "event") // an event is no progress
	event := <-a
	require.Len(t, event.Events, 1)

	got := counters.Snapshot().Sub(before)
	require.Equal(t, Counts{
		RPCs: map[string]int64{
			pb.KV_Range_FullMethodName:          3,
			pb.KV_Put_FullMethodName:            3,
			pb.KV_Txn_FullMethodName:            1,
			pb.Lease_LeaseGrant_FullMethodName:  1,
			pb.Lease_LeaseRevoke_FullMethodName: 1,
			pb.Watch_Watch_FullMethodName:       2,
		},
		Ranges: 3, Puts: 3, Txns: 1,
		WatchStreams: 2, WatchStreamsOpen: 2, WatchCreates: 3,
		ProgressRequests: 3, ProgressReplies: 3,
	}, got)

	require.NoError(t, watcher.Close())
	s, err := counters.Await(soon(t), func(s Counts) bool { return s.WatchStreamsOpen == 1 })
	require.NoError(t, err)
	require.EqualValues(t, 2, s.WatchStreams)
	endShared() // ends both watches, and with the last one the stream
	s, err = counters.Await(soon(t), func(s Counts) bool { return s.WatchStreamsOpen == 0 })
	require.NoError(t, err)
	require.EqualValues(t, 2, s.WatchStreams)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = counters.Await(ctx, func(Counts) bool { return false })
	require.ErrorIs(t, err, context.Canceled)
}

func TestCountersSeeStreamsBreakAndCome(t *testing.T) {
	c := start(t, Config{Proxy: true})
	counters := &Counters{}
	client := Connect(t, c, ClientConfig{Counters: counters})
	watch := client.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)

	c.Proxy(0).Cut()
	// clientv3 tries again, and waits for a connection.
	s, err := counters.Await(soon(t), func(s Counts) bool { return s.RPCs[pb.Watch_Watch_FullMethodName] == 2 })
	require.NoError(t, err)
	require.Equal(t, []int64{1, 0}, []int64{s.WatchStreams, s.WatchStreamsOpen})
	c.Proxy(0).Heal()
	s, err = counters.Await(soon(t), func(s Counts) bool { return s.WatchCreates == 2 })
	require.NoError(t, err)
	require.Equal(t, []int64{2, 1}, []int64{s.WatchStreams, s.WatchStreamsOpen})
	put(t, Connect(t, c, ClientConfig{}), "k", "v") // not counted
	event := <-watch
	require.Len(t, event.Events, 1)
	require.Zero(t, counters.Snapshot().Puts)
}

// TestProgressWithoutARequest drives the counting of what etcd sends by itself only
// after minutes.
func TestProgressWithoutARequest(t *testing.T) {
	counters := &Counters{}
	stream := &countedWatch{ClientStream: &scripted{replies: []*pb.WatchResponse{
		{WatchId: 3, Created: true},
		{WatchId: 3},
		{WatchId: clientv3.InvalidWatchID},
		{WatchId: 3, Canceled: true},
	}}, counters: counters}
	for range 4 {
		require.NoError(t, stream.RecvMsg(new(pb.WatchResponse)))
	}
	require.Error(t, stream.RecvMsg(new(pb.WatchResponse)))
	s := counters.Snapshot()
	require.EqualValues(t, 1, s.ProgressNotifies)
	require.EqualValues(t, 1, s.ProgressReplies)

	// What could not be sent is not counted; what could, is.
	for _, request := range []*pb.WatchRequest{
		{RequestUnion: &pb.WatchRequest_CreateRequest{}},
		{RequestUnion: &pb.WatchRequest_CancelRequest{}},
		{RequestUnion: &pb.WatchRequest_ProgressRequest{}},
	} {
		stream.ClientStream.(*scripted).failSends = true
		require.Error(t, stream.SendMsg(request))
		stream.ClientStream.(*scripted).failSends = false
		require.NoError(t, stream.SendMsg(request))
	}
	s = counters.Snapshot()
	require.Equal(t, []int64{1, 1, 1}, []int64{s.WatchCreates, s.WatchCancels, s.ProgressRequests})
}

// scripted is a stream that answers from a list.
type scripted struct {
	grpc.ClientStream
	replies   []*pb.WatchResponse
	failSends bool
}

func (s *scripted) RecvMsg(m any) error {
	if len(s.replies) == 0 {
		return io.EOF
	}
	proto.Merge(m.(*pb.WatchResponse), s.replies[0])
	s.replies = s.replies[1:]
	return nil
}

func (s *scripted) SendMsg(any) error {
	if s.failSends {
		return io.EOF
	}
	return nil
}
