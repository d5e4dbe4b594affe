package progress

import (
	"context"
	"math"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Below clientv3 every watch stream is checked: clientv3 3.7 trusts what a server sends.
// It panics when anything comes for a watch after the server ended it, loses events that
// come with fragments of another watch, and hangs a watch that is created and canceled at
// once. A watch of a stream is in one of these phases:
//
//	             created                  clientv3 cancels it
//	(requested) ---------> phaseOpen ----------------------> phaseLeaving
//	     |                     |                                  |
//	     | refused             | the server ends it               | the server confirms
//	     v                     v          clientv3 cancels it     v
//	  (refused)            phaseEnded -------------------------> (gone)
//
// Only phaseOpen hands on events. Where the server ends an open watch, clientv3 is told in
// the one way that it survives at any moment: as after a compaction, so that the owner of
// the watch starts over. Where that would lose nothing but time, and where the server broke
// the protocol, the stream is broken instead: clientv3 resumes each of its watches on a new
// one, from the last revision that it was handed.

// maxFragments bounds the bytes that are held back for responses which have not come to
// their end. etcd sends about 1.5 MB a fragment, and fragments only to those who ask for
// them (k8s.io/apiserver does not). Too low, and a watch of a big transaction starts over;
// too high, and a server that never ends a response takes that much memory.
const maxFragments = 256 << 20

// checkedClient opens checked streams.
type checkedClient struct {
	pb.WatchClient
	line *line // of the one watch on each stream; nil: the streams are shared
}

// Watch opens a stream.
func (c checkedClient) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	ctx, cancel := context.WithCancel(ctx)
	inner, err := c.WatchClient.Watch(ctx, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &checkedStream{Watch_WatchClient: inner, cancel: cancel, line: c.line, watches: map[int64]*checkedWatch{}, room: maxFragments}
	if s.line != nil {
		s.line.began(s)
	}
	return s, nil
}

// checkedStream is a gRPC watch stream as clientv3 uses it: Recv is called by one goroutine.
type checkedStream struct {
	pb.Watch_WatchClient
	cancel context.CancelFunc // ends the stream
	line   *line              // nil: the stream is shared

	send sync.Mutex // gRPC takes one Send at a time

	mu        sync.Mutex
	requested []int64 // the revisions below which the watches begin that are not answered
	watches   map[int64]*checkedWatch
	room      int // left for fragments, in bytes
}

type watchPhase uint8

const (
	phaseOpen    watchPhase = iota
	phaseLeaving            // clientv3 canceled it, and the server may not know yet
	phaseEnded              // clientv3 was told that it ended, and may not have canceled it yet
)

type checkedWatch struct {
	phase   watchPhase
	from    int64 // events at or below it were not asked for
	last    int64 // revision of the newest event, or from
	brought bool  // anything since it was created
	parts   []*mvccpb.Event
	size    int // of parts, in bytes
}

// Send sends what clientv3 asks for, and remembers it.
func (s *checkedStream) Send(req *pb.WatchRequest) error {
	switch {
	case req.GetCreateRequest() != nil:
		req = s.request(req.GetCreateRequest())
	case req.GetCancelRequest() != nil:
		s.left(req.GetCancelRequest().WatchId)
	}
	return s.sendRaw(req)
}

func (s *checkedStream) sendRaw(req *pb.WatchRequest) error {
	s.send.Lock()
	defer s.send.Unlock()
	return s.Watch_WatchClient.Send(req)
}

// request remembers a request for a watch, and returns what is sent of it.
func (s *checkedStream) request(create *pb.WatchCreateRequest) *pb.WatchRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requested = append(s.requested, max(create.StartRevision-1, 0))
	if s.line != nil {
		create = proto.Clone(create).(*pb.WatchCreateRequest)
		create.StartRevision = overlap(create.StartRevision)
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
}

// overlap returns where the watch is opened that is to go on at start: one revision below,
// of which the events are dropped. For an etcd that was compacted at start, the revision of
// a deletion, answers a watch from there without that event and without an error (3.5 before
// 3.5.16, etcd#18089), and sees from one below that it was compacted.
func overlap(start int64) int64 {
	if start > 1 {
		return start - 1
	}
	return start // 0 is from now on
}

// left notes that clientv3 has no more use for a watch.
func (s *checkedStream) left(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[id]
	switch {
	case w == nil:
	case w.phase == phaseEnded:
		delete(s.watches, id)
	default:
		w.phase = phaseLeaving
		s.dropParts(w)
	}
}

// Recv receives what clientv3 may see.
func (s *checkedStream) Recv() (*pb.WatchResponse, error) {
	for {
		resp, err := s.Watch_WatchClient.Recv()
		if err == nil {
			resp, err = s.check(resp)
		}
		if err != nil {
			if s.line != nil {
				s.line.ended(s)
			}
			s.cancel()
			return nil, err
		}
		if resp != nil {
			return resp, nil
		}
	}
}

// check returns what is handed on of a response, nil for nothing. An error ends the stream.
func (s *checkedStream) check(resp *pb.WatchResponse) (*pb.WatchResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := resp.Header.GetRevision(); at < 0 || at == math.MaxInt64 { // clientv3 resumes at the next
		return nil, breach("revision %d", at)
	}
	switch {
	case resp.Created:
		return s.created(resp)
	case resp.Canceled || resp.CompactRevision != 0:
		return s.canceled(resp)
	case resp.WatchId == clientv3.InvalidWatchID && len(resp.Events) == 0 && !resp.Fragment:
		return s.progress(resp)
	}
	return s.events(resp)
}

// breach breaks a stream on which clientv3 could lose something or panic.
func breach(format string, args ...any) error {
	return status.Errorf(codes.Unavailable, "progress: the watch stream is broken off: "+format, args...)
}

func (s *checkedStream) created(resp *pb.WatchResponse) (*pb.WatchResponse, error) {
	if len(s.requested) == 0 {
		return nil, breach("watch %d was created, and not asked for", resp.WatchId)
	}
	from := s.requested[0]
	s.requested = s.requested[1:]
	switch {
	case resp.Canceled || resp.CompactRevision != 0 || resp.WatchId < 0:
		return nil, refused(resp)
	case s.watches[resp.WatchId] != nil:
		return nil, breach("watch %d was created twice", resp.WatchId)
	case len(resp.Events) > 0: // clientv3 would pass over them
		return nil, breach("watch %d was created with %d events", resp.WatchId, len(resp.Events))
	}
	s.watches[resp.WatchId] = &checkedWatch{from: from, last: from}
	if s.line != nil {
		s.line.opened(s)
	}
	return resp, nil
}

// refused ends the stream for the reason that the server does not open a watch, and so the
// watches that share it, whose owners open them again. A refusal by itself clientv3 only
// survives while nothing else happens: when the stream breaks right after it, or its watcher
// is closed, the refused watch never ends, or Close does not return.
func refused(resp *pb.WatchResponse) error {
	reason := resp.CancelReason
	switch {
	case resp.CompactRevision != 0:
		reason = rpctypes.ErrCompacted.Error()
	case reason == "":
		reason = "the server refused the watch"
	}
	return status.Error(codes.FailedPrecondition, reason) // no code that clientv3 tries again after
}

// canceled handles the end of a watch.
func (s *checkedStream) canceled(resp *pb.WatchResponse) (*pb.WatchResponse, error) {
	w := s.watches[resp.WatchId]
	switch {
	case w == nil && s.line != nil:
		return nil, breach("watch %d ended, which is not open", resp.WatchId)
	case w == nil:
		return nil, nil
	case w.phase == phaseEnded:
		return nil, nil
	case w.phase == phaseLeaving:
		// Not for clientv3: it may have the watch still, and would close its channel.
		delete(s.watches, resp.WatchId)
		return nil, nil
	case resp.CompactRevision == 0 && w.brought:
		return nil, breach("the server ended watch %d: %s", resp.WatchId, resp.CancelReason)
	}
	return s.startOver(resp, w), nil
}

// startOver ends a watch for clientv3 as a compaction does: whoever opened it reads all anew.
func (s *checkedStream) startOver(resp *pb.WatchResponse, w *checkedWatch) *pb.WatchResponse {
	w.phase = phaseEnded
	s.dropParts(w)
	if s.line != nil {
		s.line.ended(s)
	}
	compacted := resp.CompactRevision
	if compacted == 0 {
		compacted = max(w.last, 1) // 0 is no compaction
	}
	return &pb.WatchResponse{Header: resp.Header, WatchId: resp.WatchId, Canceled: true, CancelReason: resp.CancelReason, CompactRevision: compacted}
}

func (s *checkedStream) progress(resp *pb.WatchResponse) (*pb.WatchResponse, error) {
	at, newest, open := resp.Header.GetRevision(), int64(0), false
	for id, w := range s.watches {
		if w.parts != nil {
			return nil, breach("progress came before the rest of a response to watch %d", id)
		}
		if w.phase == phaseOpen {
			w.brought, open, newest = true, true, max(newest, w.last)
		}
	}
	switch {
	case at == 0 || !open:
		return nil, nil
	case s.line != nil && !s.line.progress(s, uint64(at)):
		return nil, nil
	case at < newest: // clientv3 would resume below what it has
		return nil, nil
	}
	return resp, nil
}

func (s *checkedStream) events(resp *pb.WatchResponse) (*pb.WatchResponse, error) {
	w := s.watches[resp.WatchId]
	switch {
	case w == nil && s.line != nil:
		return nil, breach("something came for watch %d, which is not open", resp.WatchId)
	case w == nil:
		// Late, of one that has left. clientv3 would cancel its id, which the server may
		// just be giving to another.
		return nil, nil
	case w.phase != phaseOpen:
		return nil, nil
	}
	for _, event := range resp.Events {
		if event.GetKv() == nil {
			return nil, breach("an event of watch %d is of no key", resp.WatchId)
		}
	}
	w.brought = true
	if resp.Fragment {
		if !s.hold(w, resp.Events) {
			return s.startOver(resp, w), nil
		}
		return nil, nil
	}
	if w.parts != nil {
		resp.Events = append(w.parts, resp.Events...)
		s.dropParts(w)
	}
	if len(resp.Events) == 0 {
		if at := resp.Header.GetRevision(); at == 0 || at < w.last {
			return nil, nil
		}
		return resp, nil
	}
	return s.inOrder(resp, w)
}

// inOrder hands on the events that were asked for. A watch whose events go back starts over:
// what comes late may be what it lacks.
func (s *checkedStream) inOrder(resp *pb.WatchResponse, w *checkedWatch) (*pb.WatchResponse, error) {
	events := resp.Events
	for len(events) > 0 && w.last == w.from && events[0].Kv.ModRevision <= w.from {
		events = events[1:]
	}
	last := w.last
	for _, event := range events {
		revision := event.Kv.ModRevision
		if revision == math.MaxInt64 {
			return nil, breach("an event of revision %d", revision)
		}
		if revision < last || revision <= w.from {
			return s.startOver(resp, w), nil
		}
		last = revision
	}
	if len(events) == 0 {
		return nil, nil // its header says nothing about what is complete
	}
	resp.Events, w.last = events, last
	if s.line != nil {
		s.line.events(s, events)
	}
	return resp, nil
}

// hold keeps a part of a response. It is false where there is no room for it.
func (s *checkedStream) hold(w *checkedWatch, events []*mvccpb.Event) bool {
	size := 0
	for _, event := range events {
		size += perEvent + len(event.Kv.Key) + len(event.Kv.Value) + len(event.PrevKv.GetKey()) + len(event.PrevKv.GetValue())
	}
	if size > s.room {
		return false
	}
	s.room -= size
	w.size += size
	if w.parts = append(w.parts, events...); w.parts == nil {
		w.parts = []*mvccpb.Event{}
	}
	return true
}

// perEvent is about what an event takes besides its keys and values, in bytes.
const perEvent = 300

func (s *checkedStream) dropParts(w *checkedWatch) {
	s.room += w.size
	w.parts, w.size = nil, 0
}
