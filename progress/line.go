package progress

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// passEach is how often a taken report is delivered all the same: clientv3 resumes
// a broken watch from the newest revision that it saw, and on a quiet resource that
// is one of a report. Without any it would resume from what may be compacted.
const passEach = time.Second

var errNoStream = errors.New("progress: the watch has no stream that etcd has confirmed")

// line is the watch client below one tapped watch. It sees what comes from etcd
// before clientv3 hands it through its goroutines, and sends kicks past them.
type line struct {
	pb.WatchClient
	tap Tap

	stream atomic.Pointer[lineStream] // nil once closed

	mu     sync.Mutex // orders what the tap is told
	opened bool
	closed bool
	passed time.Time       // when a report was last delivered
	parts  []*mvccpb.Event // of a response that came in fragments so far
}

// Watch opens a stream, the first or one that replaces another.
func (l *line) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	inner, err := l.WatchClient.Watch(ctx, opts...)
	if err != nil {
		return nil, err
	}
	s := &lineStream{Watch_WatchClient: inner, line: l}
	l.mu.Lock()
	l.stream.Store(s)
	l.parts = nil
	l.mu.Unlock()
	return s, nil
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.stream.Store(nil)
	if l.opened {
		l.tap.Closed()
	}
}

// received tells the tap what a response brings. It is false when the response is
// not to be delivered.
func (l *line) received(s *lineStream, resp *pb.WatchResponse) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed || l.stream.Load() != s:
	case resp.Created && !resp.Canceled: // both: refused
		l.opened = true
		l.tap.Opened(s.kick)
	case resp.WatchId == clientv3.InvalidWatchID && len(resp.Events) == 0 && !resp.Canceled:
		if l.tap.Progress(uint64(resp.Header.GetRevision())) && time.Since(l.passed) < passEach {
			return false
		}
		l.passed = time.Now()
	default:
		l.announceLocked(resp)
	}
	return true
}

func (l *line) announceLocked(resp *pb.WatchResponse) {
	events := resp.Events
	if resp.Fragment || l.parts != nil { // a revision may go on in the next
		l.parts = append(l.parts, events...)
		if resp.Fragment {
			return
		}
		events, l.parts = l.parts, nil
	}
	for i := 0; i < len(events); {
		revision, first := events[i].Kv.ModRevision, i
		for i < len(events) && events[i].Kv.ModRevision == revision {
			i++
		}
		l.tap.Revision(uint64(revision), i-first)
	}
}

// lineStream is one gRPC stream of a line.
type lineStream struct {
	pb.Watch_WatchClient
	line *line
	send sync.Mutex // gRPC takes one Send at a time
}

// Send is what clientv3 sends.
func (s *lineStream) Send(req *pb.WatchRequest) error {
	s.send.Lock()
	defer s.send.Unlock()
	return s.Watch_WatchClient.Send(req)
}

// Recv is what clientv3 receives.
func (s *lineStream) Recv() (*pb.WatchResponse, error) {
	for {
		resp, err := s.Watch_WatchClient.Recv()
		if err != nil || s.line.received(s, resp) {
			return resp, err
		}
	}
}

// kick asks for progress, and waits for nothing: gRPC takes a message for a stream
// that has answered before without, until thousands of them are held up. The stream has confirmed its watch: the request comes
// after the creation, so that the answer cannot.
func (s *lineStream) kick(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.line.stream.Load() != s {
		return errNoStream
	}
	return s.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}
