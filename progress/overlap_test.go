package progress

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestOverlap: a tapped watch begins one revision below where it is to go on, and neither
// the tap nor the watch hears of that revision, whatever responses it comes in. Nor does a
// response of nothing else pass for a report. It is so for the first stream and for one that
// replaces it.
func TestOverlap(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	tap := newTapLog()
	out := watcher.Watch(WithTap(t.Context(), tap), "a", clientv3.WithRev(11), clientv3.WithFragment())
	for _, play := range []func(st *serverStream, below, from int64){
		func(st *serverStream, below, from int64) { st.events(t, 0, below, below, below, from, from) },
		func(st *serverStream, below, from int64) {
			st.events(t, 0, below, below)
			st.events(t, 0, below)
			st.events(t, 0, from, from)
		},
		func(st *serverStream, below, from int64) {
			st.fragment(t, 0, below, below)
			st.fragment(t, 0, below, from)
			st.events(t, 0, from)
		},
		func(st *serverStream, _, from int64) { st.events(t, 0, from, from) }, // it was of another key
	} {
		st := next(t, server.streams, "a stream")
		create := st.create(t)
		below, from := create.StartRevision, create.StartRevision+1
		st.created(t, 0)
		tap.want(t, "opened")
		play(st, below, from)
		wantRevisions(t, out, from, from)
		if from < 11 {
			t.Fatalf("the watch begins at %d, below where it was", create.StartRevision)
		}
		tap.want(t, fmt.Sprintf("revision %d: 2", from))
		tap.wantNoMore(t)
		st.drop <- status.Error(codes.Unavailable, "the test drops the stream")
	}

	// A server that was compacted where the watch goes on says so.
	st := next(t, server.streams, "a stream")
	create := st.create(t)
	if create.StartRevision != 14 {
		t.Errorf("the watch begins at %d, want 14: it has all of that", create.StartRevision)
	}
	st.created(t, 0)
	st.send(t, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 15}, Canceled: true, CompactRevision: 15})
	if resp := next(t, out, "the end"); resp.Err() != rpctypes.ErrCompacted {
		t.Errorf("got %v, want that of a compaction", resp.Err())
	}
}

// TestNoOverlap: a watch from now on, one from the first revision, and one without a tap
// begin where they are asked to.
func TestNoOverlap(t *testing.T) {
	for start := range int64(3) {
		server := newWatchServer(t)
		watcher := NewWatcher(server.client)
		defer watcher.Close()
		watcher.Watch(WithTap(t.Context(), newTapLog()), "a", clientv3.WithRev(start))
		if got := next(t, server.streams, "a stream").create(t).StartRevision; got != min(start, 1) {
			t.Errorf("a tapped watch from %d begins at %d", start, got)
		}
		go watcher.Watch(t.Context(), "a", clientv3.WithRev(start))
		if got := next(t, server.streams, "the shared stream").create(t).StartRevision; got != start {
			t.Errorf("a watch without a tap from %d begins at %d", start, got)
		}
	}
}
