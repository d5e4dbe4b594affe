package e2e

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// stall is between a client and etcd. Once it is begun, nothing that etcd sends on
// watch streams arrives, and the answers of lists arrive when the test lets them.
type stall struct {
	mu      sync.Mutex
	begun   chan struct{} // closed by begin
	release chan struct{} // closed by let: lists are answered
	enough  chan struct{} // closed when as many lists as await said are under way
	want    int

	now, utmost, total int // lists under way; the most, and all, since hold
}

func newStall() *stall { return &stall{begun: make(chan struct{})} }

func (s *stall) dial() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainStreamInterceptor(s.stream)}
}

func (s *stall) begin() { close(s.begun) }

// hold keeps back the answers of lists from now on. enough is closed when want of
// them are there, and let lets them through.
func (s *stall) hold(want int) (enough <-chan struct{}, let func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	release := make(chan struct{})
	s.release, s.enough, s.want = release, make(chan struct{}), want
	s.utmost, s.total = 0, 0
	return s.enough, func() { close(release) }
}

func (s *stall) counts() (utmost, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.utmost, s.total
}

func (s *stall) count(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += by
	s.total += max(by, 0)
	s.utmost = max(s.utmost, s.now)
}

func (s *stall) arrived() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.want--; s.want == 0 {
		close(s.enough)
	}
}

func (s *stall) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	release := s.release
	s.mu.Unlock()
	switch {
	case method == pb.Watch_Watch_FullMethodName:
		return stalledWatch{stream, s}, nil
	case method == pb.KV_RangeStream_FullMethodName && release != nil:
		s.count(1)
		return &stalledList{ClientStream: stream, stall: s, release: release}, nil
	}
	return stream, nil
}

type stalledWatch struct {
	grpc.ClientStream
	stall *stall
}

func (w stalledWatch) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	select {
	case <-w.stall.begun:
		<-w.Context().Done()
		return w.Context().Err()
	default:
		return err
	}
}

// stalledList is read by one goroutine, to its end.
type stalledList struct {
	grpc.ClientStream
	stall   *stall
	release <-chan struct{}
	some    bool // of the answer has come
}

func (l *stalledList) RecvMsg(m any) error {
	err := l.ClientStream.RecvMsg(m)
	if !l.some {
		l.some = true
		l.stall.arrived()
		select {
		case <-l.release:
		case <-l.Context().Done():
		}
	}
	if err != nil {
		l.stall.count(-1)
	}
	return err
}
