package progress

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// passEach is how often a taken report is delivered all the same: clientv3 resumes
// a broken watch from the newest revision that it saw, and on a quiet resource that
// is one of a report. Without any it would resume from what may be compacted.
const passEach = time.Second

var errNoStream = errors.New("progress: the watch has no stream that etcd has confirmed")

// line tells a tap what comes on the checked streams of its watch, before clientv3 hands
// it through its goroutines, and sends kicks past them.
type line struct {
	tap Tap

	stream atomic.Pointer[checkedStream] // the newest; nil where it has ended

	mu     sync.Mutex // orders what the tap is told
	told   bool       // of a stream
	closed bool
	passed time.Time // when a report was last delivered
}

// began notes the stream of the watch, the first or one that replaces another.
func (l *line) began(s *checkedStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.stream.Store(s)
	}
}

// ended notes that nothing more comes on a stream, and that it is not to be kicked.
func (l *line) ended(s *checkedStream) { l.stream.CompareAndSwap(s, nil) }

// close is called when the watch has ended.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.stream.Store(nil)
	if l.told {
		l.tap.Closed()
	}
}

// tell calls the tap about what came on a stream, unless that is over.
func (l *line) tell(s *checkedStream, what func(Tap)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.stream.Load() == s {
		what(l.tap)
	}
}

// opened tells that the server has confirmed the watch.
func (l *line) opened(s *checkedStream) {
	l.tell(s, func(tap Tap) {
		l.told = true
		tap.Opened(s.kick)
	})
}

// events tells of a whole response.
func (l *line) events(s *checkedStream, events []*mvccpb.Event) {
	l.tell(s, func(tap Tap) {
		for i := 0; i < len(events); {
			revision, first := events[i].Kv.ModRevision, i
			for i < len(events) && events[i].Kv.ModRevision == revision {
				i++
			}
			tap.Revision(uint64(revision), i-first)
		}
	})
}

// progress tells of a report, and returns whether it is to be delivered as well.
func (l *line) progress(s *checkedStream, revision uint64) (deliver bool) {
	deliver = true
	l.tell(s, func(tap Tap) {
		if tap.Progress(revision) && time.Since(l.passed) < passEach {
			deliver = false
			return
		}
		l.passed = time.Now()
	})
	return deliver
}

// kick asks for progress, and waits for nothing: gRPC takes a message for a stream
// that has answered before without, until thousands of them are held up. The stream has
// confirmed its watch: the request comes after the creation, so that the answer cannot.
func (s *checkedStream) kick(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if s.line.stream.Load() != s {
		return errNoStream
	}
	return s.sendRaw(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}
