package progress

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// watchServer is an etcd of which only the watches are there, and these do what the
// test says. Its client talks to it through memory.
type watchServer struct {
	pb.UnimplementedWatchServer
	client *clientv3.Client
	// streams are the gRPC streams in the order in which they were opened.
	streams   chan *serverStream
	receiving sync.WaitGroup
}

func newWatchServer(t *testing.T) *watchServer {
	s := &watchServer{streams: make(chan *serverStream, 10_000)}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	pb.RegisterWatchServer(server, s)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
		s.receiving.Wait()
	})
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"http://memory"},
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s.client = client
	return s
}

// Watch is one stream, until the client, the test or the server ends it.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	st := &serverStream{stream: stream, requests: make(chan *pb.WatchRequest, 10_000), drop: make(chan error, 1), ended: make(chan struct{})}
	s.streams <- st
	defer close(st.ended)
	s.receiving.Go(func() { // until this handler returns, or the client ends the stream
		defer close(st.requests)
		for {
			request, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case st.requests <- request:
			case <-st.ended: // and the test took none of some thousands
			}
		}
	})
	select {
	case err := <-st.drop:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// serverStream is one gRPC stream, as the server sees it. Its watches are numbered
// from 0 in the order in which they were created.
type serverStream struct {
	stream   pb.Watch_WatchServer
	requests chan *pb.WatchRequest
	drop     chan error    // ends the stream, with this error
	ended    chan struct{} // closed when the stream has ended
}

// head is the revision of a watchServer.
const head = 10

func (st *serverStream) send(t *testing.T, resp *pb.WatchResponse) {
	t.Helper()
	if err := st.stream.Send(resp); err != nil {
		t.Errorf("server: %v", err)
	}
}

// create takes the next request, which must create a watch.
func (st *serverStream) create(t *testing.T) *pb.WatchCreateRequest {
	t.Helper()
	request := next(t, st.requests, "a create request")
	create := request.GetCreateRequest()
	if create == nil {
		t.Fatalf("server: got %v, want a create request", request)
	}
	return create
}

// asked takes the next request, which must ask for progress.
func (st *serverStream) asked(t *testing.T) {
	t.Helper()
	if request := next(t, st.requests, "a progress request"); request.GetProgressRequest() == nil {
		t.Fatalf("server: got %v, want a progress request", request)
	}
}

func (st *serverStream) created(t *testing.T, id int64) {
	t.Helper()
	st.send(t, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: head}, WatchId: id, Created: true})
}

// progress goes to all watches of the stream.
func (st *serverStream) progress(t *testing.T, revision int64) {
	t.Helper()
	st.send(t, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revision}, WatchId: clientv3.InvalidWatchID})
}

// events is one response with an event of each of these revisions.
func (st *serverStream) events(t *testing.T, id int64, revisions ...int64) {
	t.Helper()
	st.send(t, eventsOf(id, revisions))
}

// fragment is a part of a response, of which more follows.
func (st *serverStream) fragment(t *testing.T, id int64, revisions ...int64) {
	t.Helper()
	resp := eventsOf(id, revisions)
	resp.Fragment = true
	st.send(t, resp)
}

func eventsOf(id int64, revisions []int64) *pb.WatchResponse {
	resp := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revisions[len(revisions)-1]}, WatchId: id}
	for _, revision := range revisions {
		resp.Events = append(resp.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("a"), ModRevision: revision}})
	}
	return resp
}

// next takes what must come. The time only keeps a failing test from hanging.
func next[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case got, ok := <-from:
		if !ok {
			t.Fatalf("%s was to come, but the channel is closed", what)
		}
		return got
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not come", what)
	}
	panic("not reached")
}

// wantClosed demands that a channel is closed, with nothing left in it.
func wantClosed[T any](t *testing.T, from <-chan T, what string) {
	t.Helper()
	select {
	case got, ok := <-from:
		if ok {
			t.Fatalf("%s brought %v, want it closed", what, got)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s is not closed", what)
	}
}
