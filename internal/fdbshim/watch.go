package fdbshim

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watchServer is etcd's Watch service.
type watchServer struct {
	pb.UnimplementedWatchServer
	server *Server
}

// Watch implements pb.WatchServer.
func (w watchServer) Watch(stream pb.Watch_WatchServer) error {
	s := &watchStream{server: w.server, stream: stream}
	requests, ended := make(chan *pb.WatchRequest), make(chan struct{})
	defer close(ended)
	w.server.serving.Go(func() { // until this call has ended
		defer close(requests)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- r:
			case <-ended:
			}
		}
	})
	return s.run(requests)
}

// watchStream is one stream. One goroutine does all of its work, so that what was
// delivered is known when progress is told.
type watchStream struct {
	server  *Server
	stream  pb.Watch_WatchServer
	watches []*watch // in the order in which they were created
	nextID  int64
	asked   int // progress requests that were answered
}

func (s *watchStream) run(requests <-chan *pb.WatchRequest) error {
	interval := time.NewTicker(s.server.opts.ProgressInterval)
	defer interval.Stop()
	for {
		changed, held, err := s.deliver()
		if err != nil {
			return err
		}
		var due <-chan time.Time
		if held > 0 {
			due = time.After(held)
		}
		select {
		case r, ok := <-requests:
			if !ok {
				return nil
			}
			if err := s.handle(r); err != nil {
				return err
			}
		case <-interval.C:
			if err := s.tellProgress(); err != nil {
				return err
			}
		case <-changed:
		case <-due:
		case <-s.server.stopping:
			return status.Error(codes.Unavailable, "fdbshim: closed")
		}
	}
}

func (s *watchStream) handle(r *pb.WatchRequest) error {
	switch r := r.RequestUnion.(type) {
	case *pb.WatchRequest_CreateRequest:
		return s.create(r.CreateRequest)
	case *pb.WatchRequest_CancelRequest:
		return s.cancel(&pb.WatchResponse{WatchId: r.CancelRequest.WatchId})
	case *pb.WatchRequest_ProgressRequest:
		return s.answerProgress()
	}
	return nil
}

// create begins a watch. The revision that it is told is that of the last commit, as
// all that a stream says is about commits.
func (s *watchStream) create(r *pb.WatchCreateRequest) error {
	faults := s.server.Faults()
	if faults.OneWatchPerStream && len(s.watches) > 0 {
		return s.send(&pb.WatchResponse{
			Header: s.server.now(), WatchId: -1, Created: true, Canceled: true, CancelReason: "fdbshim: one watch a stream",
		})
	}
	if r.WatchId != 0 {
		s.nextID = max(s.nextID, r.WatchId) // whoever chooses ids chooses them ascending
	}
	w := &watch{request: r, id: s.nextID}
	s.nextID++
	store := s.server.store
	store.mu.Lock()
	w.space = store.spaceLocked(r.Key)
	at := w.space.last
	store.mu.Unlock()
	w.next = r.StartRevision
	if w.next == 0 {
		w.next = at + 1
	}
	s.watches = append(s.watches, w)
	if faults.CreatedZero {
		at = 0
	}
	return s.send(&pb.WatchResponse{Header: s.server.header(at), WatchId: w.id, Created: true})
}

// send sends, but for while watches are held back.
func (s *watchStream) send(resp *pb.WatchResponse) error {
	if err := s.server.Watches.Pass(s.stream.Context()); err != nil {
		return err
	}
	return s.stream.Send(resp)
}

// cancel ends the watch that a response names, and says so. An unknown one is left
// unanswered, as by etcd.
func (s *watchStream) cancel(resp *pb.WatchResponse) error {
	for i, w := range s.watches {
		if w.id == resp.WatchId {
			s.watches = append(s.watches[:i:i], s.watches[i+1:]...)
			resp.Canceled, resp.Header = true, s.server.header(w.at)
			return s.send(resp)
		}
	}
	return nil
}

// deliver sends all that the watches may know by now. It returns what is closed when
// there may be more, and after what time there will be, 0 for none.
func (s *watchStream) deliver() (changed <-chan struct{}, held time.Duration, err error) {
	store := s.server.store
	var responses []*pb.WatchResponse
	store.mu.Lock()
	for _, w := range s.watches {
		resp, hold := w.advanceLocked(s.server)
		if resp != nil {
			responses = append(responses, resp)
		}
		if hold > 0 && (held == 0 || hold < held) {
			held = hold
		}
	}
	changed = store.changed
	store.mu.Unlock()
	for _, resp := range responses {
		if resp.CompactRevision > 0 {
			err = s.cancel(resp)
		} else {
			err = s.send(resp)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return changed, held, nil
}
