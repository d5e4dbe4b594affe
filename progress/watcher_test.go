package progress

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// tapLog is a Tap that writes down its calls.
type tapLog struct {
	opened chan func(context.Context) error
	calls  chan string

	reported atomic.Uint64 // by Progress; it comes as often as kicks do
	takes    atomic.Bool   // what Progress answers
}

func newTapLog() *tapLog {
	return &tapLog{opened: make(chan func(context.Context) error, 10), calls: make(chan string, 10_000)}
}

func (l *tapLog) Opened(kick func(context.Context) error) {
	l.calls <- "opened"
	l.opened <- kick
}
func (l *tapLog) Revision(revision uint64, events int) {
	l.calls <- fmt.Sprintf("revision %d: %d", revision, events)
}
func (l *tapLog) Progress(revision uint64) bool {
	l.reported.Store(revision)
	return l.takes.Load()
}
func (l *tapLog) Closed() { l.calls <- "closed" }

// want takes the next calls, which must be these.
func (l *tapLog) want(t *testing.T, calls ...string) {
	t.Helper()
	for _, want := range calls {
		if got := next(t, l.calls, want); got != want {
			t.Fatalf("the tap was told %q, want %q", got, want)
		}
	}
}

func (l *tapLog) wantNoMore(t *testing.T) {
	t.Helper()
	select {
	case got := <-l.calls:
		t.Fatalf("the tap was told %q too", got)
	default:
	}
}

func revisionsOf(resp clientv3.WatchResponse) (revisions []int64) {
	for _, event := range resp.Events {
		revisions = append(revisions, event.Kv.ModRevision)
	}
	return revisions
}

func wantRevisions(t *testing.T, out clientv3.WatchChan, want ...int64) {
	t.Helper()
	if got := revisionsOf(next(t, out, "a response")); !slices.Equal(got, want) {
		t.Fatalf("a response with revisions %v, want %v", got, want)
	}
}

// TestTapCalls: Opened when the server has confirmed, each revision with its size
// before its response can be taken, and Closed before the channel is.
func TestTapCalls(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	tap := newTapLog()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := watcher.Watch(WithTap(ctx, tap), "a", clientv3.WithRev(11), clientv3.WithFragment())
	st := next(t, server.streams, "a stream")
	if create := st.create(t); create.StartRevision != overlap(11) || string(create.Key) != "a" || !create.Fragment {
		t.Errorf("the options did not arrive: %v", create)
	}
	tap.calls <- "the server confirms"
	st.created(t, 0)
	tap.want(t, "the server confirms", "opened")

	// Nobody takes the response before the tap was told.
	st.events(t, 0, 11, 11, 11, 12, 13, 13)
	tap.want(t, "revision 11: 3", "revision 12: 1", "revision 13: 2")
	wantRevisions(t, out, 11, 11, 11, 12, 13, 13)

	// clientv3 puts fragments together, so that no revision is counted twice.
	st.fragment(t, 0, 14, 14)
	st.fragment(t, 0, 14)
	st.events(t, 0, 14, 15)
	tap.want(t, "revision 14: 4", "revision 15: 1")
	wantRevisions(t, out, 14, 14, 14, 14, 15)

	// Progress has no revision of its own. The Tap is told before, and one that it
	// takes is not delivered, but now and then, for clientv3 to resume from.
	st.progress(t, 15)
	if resp := next(t, out, "progress"); !resp.IsProgressNotify() || resp.Header.Revision != 15 {
		t.Errorf("got %+v, want progress at 15", resp)
	}
	if told := tap.reported.Load(); told != 15 {
		t.Errorf("the tap was told progress %d, want 15", told)
	}
	tap.takes.Store(true)
	st.progress(t, 15) // right after one that was delivered: it stays with the tap
	st.events(t, 0, 16)
	tap.want(t, "revision 16: 1")
	wantRevisions(t, out, 16)

	cancel()
	wantClosed(t, out, "the watch")
	tap.want(t, "closed")
	tap.wantNoMore(t)
	<-st.ended
}

// TestKickGoesToItsOwnStream, whatever metadata the contexts of the watch and of the
// kick carry: clientv3 finds streams by it.
func TestKickGoesToItsOwnStream(t *testing.T) {
	for name, with := range map[string]func(context.Context) context.Context{
		"none":           func(ctx context.Context) context.Context { return ctx },
		"require leader": clientv3.WithRequireLeader,
		"some": func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(metadata.NewOutgoingContext(ctx, metadata.Pairs("a", "1")), "a", "2", "b", "3")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWatchServer(t)
			watcher := NewWatcher(server.client)
			defer watcher.Close()
			tap := newTapLog()
			out := watcher.Watch(WithTap(with(t.Context()), tap), "a")
			st := next(t, server.streams, "a stream")
			st.create(t)
			want, _ := metadata.FromOutgoingContext(with(t.Context()))
			got, _ := metadata.FromIncomingContext(st.stream.Context())
			for key := range want {
				if !slices.Equal(got[key], want[key]) {
					t.Errorf("metadata %s arrived as %v, want %v", key, got[key], want[key])
				}
			}
			st.created(t, 0)
			kick := next(t, tap.opened, "Opened")
			for _, ctx := range []context.Context{context.Background(), metadata.AppendToOutgoingContext(t.Context(), "c", "4")} {
				if err := kick(ctx); err != nil {
					t.Fatal(err)
				}
				st.asked(t)
				st.progress(t, head)
				if resp := next(t, out, "progress"); !resp.IsProgressNotify() {
					t.Errorf("got %+v, want progress", resp)
				}
			}
			if err := watcher.Close(); err != nil {
				t.Error(err)
			}
			if n := len(server.streams); n != 0 {
				t.Errorf("%d more streams were opened", n)
			}
		})
	}
}

// TestRequestWithoutAWatch: clientv3 opens a stream for a request of progress that finds
// none, before a watch or after, and nothing closes it.
func TestRequestWithoutAWatch(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	if watcher.RequestProgress(t.Context()) == nil {
		t.Error("a request before any watch succeeded")
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan clientv3.WatchChan, 1)
	go func() { opened <- watcher.Watch(ctx, "a") }()
	shared := next(t, server.streams, "the shared stream")
	shared.create(t)
	shared.created(t, 0)
	out := next(t, opened, "the watch")
	if watcher.RequestProgress(metadata.AppendToOutgoingContext(t.Context(), "other", "metadata")) == nil {
		t.Error("a request for another stream succeeded")
	}
	if err := watcher.RequestProgress(t.Context()); err != nil {
		t.Error(err)
	}
	shared.asked(t)
	cancel()
	wantClosed(t, out, "the watch after its end")
	<-shared.ended
	for counted := true; counted; runtime.Gosched() { // the count follows the context
		watcher.mu.Lock()
		counted = len(watcher.sharing) > 0
		watcher.mu.Unlock()
	}
	if watcher.RequestProgress(t.Context()) == nil {
		t.Error("a request after the watch succeeded")
	}
	if n := len(server.streams); n != 0 {
		t.Errorf("%d more streams were opened", n)
	}
}

// TestUntappedWatchesShareAStream, as in clientv3, and are asked by RequestProgress;
// a tapped one is not.
func TestUntappedWatchesShareAStream(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	tap := newTapLog()
	tapped := watcher.Watch(WithTap(t.Context(), tap), "tapped")
	own := next(t, server.streams, "the stream of the tapped watch")
	own.create(t)
	own.created(t, 0)
	tap.want(t, "opened")

	var opening sync.WaitGroup
	outs := make([]clientv3.WatchChan, 2)
	for i := range outs {
		opening.Go(func() { outs[i] = watcher.Watch(t.Context(), "a") })
	}
	shared := next(t, server.streams, "the shared stream")
	for i := range outs {
		if key := shared.create(t).Key; string(key) != "a" {
			t.Errorf("key %q on the shared stream", key)
		}
		shared.created(t, int64(i))
	}
	opening.Wait()
	if err := watcher.RequestProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	shared.asked(t)
	shared.progress(t, head)
	for _, out := range outs {
		if resp := next(t, out, "progress"); !resp.IsProgressNotify() {
			t.Errorf("got %+v, want progress", resp)
		}
	}
	shared.events(t, 1, 11)
	own.events(t, 0, 11)
	wantRevisions(t, tapped, 11)
	tap.want(t, "revision 11: 1")
	if err := watcher.Close(); err != nil {
		t.Error(err)
	}
	<-own.ended
	<-shared.ended
	if request, ok := <-own.requests; ok {
		t.Errorf("on the tapped watch's stream came %v", request)
	}
	if n := len(server.streams); n != 0 {
		t.Errorf("%d more streams were opened", n)
	}
}

// TestRefusedWatch: the error goes on, and the watch ends. The tap hears of it if
// it was confirmed before.
func TestRefusedWatch(t *testing.T) {
	for name, refuse := range map[string]func(st *serverStream){
		"refused": func(st *serverStream) {
			st.send(t, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: head}, WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true, CancelReason: "no"})
		},
		"compacted": func(st *serverStream) {
			st.created(t, 0)
			st.send(t, &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: head}, WatchId: 0, Canceled: true, CompactRevision: 7})
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWatchServer(t)
			watcher := NewWatcher(server.client)
			defer watcher.Close()
			tap := newTapLog()
			out := watcher.Watch(WithTap(t.Context(), tap), "a", clientv3.WithRev(5))
			st := next(t, server.streams, "a stream")
			st.create(t)
			refuse(st)
			if resp := next(t, out, "the error"); resp.Err() == nil {
				t.Errorf("got %+v, want an error", resp)
			}
			wantClosed(t, out, "the watch")
			if name == "compacted" {
				tap.want(t, "opened", "closed")
			}
			tap.wantNoMore(t)
			<-st.ended
		})
	}
}

// TestReconnect: when the server drops the stream of a watch, the watch goes on
// where it was, on a new stream that is again its own, and so is its kick.
func TestReconnect(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	type tapped struct {
		*tapLog
		out    clientv3.WatchChan
		stream *serverStream
		kick   func(context.Context) error
	}
	open := func(key string) tapped {
		w := tapped{tapLog: newTapLog()}
		w.out = watcher.Watch(WithTap(t.Context(), w), key)
		w.stream = next(t, server.streams, "a stream")
		w.stream.create(t)
		w.stream.created(t, 0)
		w.kick = next(t, w.opened, "Opened")
		return w
	}
	dropped, other := open("dropped"), open("other")
	dropped.stream.events(t, 0, 11, 11)
	wantRevisions(t, dropped.out, 11, 11)

	for from := int64(12); from < 20; from++ {
		dropped.stream.drop <- status.Error(codes.Unavailable, "the test drops the stream")
		<-dropped.stream.ended
		dropped.stream = next(t, server.streams, "a new stream")
		create := dropped.stream.create(t)
		if string(create.Key) != "dropped" || create.StartRevision != overlap(from) {
			t.Fatalf("the watch went on with %v, want its key from revision %d", create, from)
		}
		dropped.stream.created(t, 0)
		if err := dropped.kick(t.Context()); err == nil {
			t.Fatal("the kick of the stream that broke still asks")
		}
		dropped.kick = next(t, dropped.opened, "Opened for the new stream")
		dropped.stream.events(t, 0, from)
		wantRevisions(t, dropped.out, from)
		if err := dropped.kick(t.Context()); err != nil {
			t.Fatal(err)
		}
		dropped.stream.asked(t)
		dropped.stream.progress(t, from)
		if resp := next(t, dropped.out, "progress"); !resp.IsProgressNotify() || resp.Header.Revision != from {
			t.Fatalf("got %+v, want progress at %d", resp, from)
		}
	}

	// The other was not touched.
	other.stream.events(t, 0, 11)
	wantRevisions(t, other.out, 11)
	watcher.Close()
	<-other.stream.ended
	if request, ok := <-other.stream.requests; ok {
		t.Errorf("on the other stream came %v", request)
	}
	other.want(t, "opened", "revision 11: 1", "closed")
	if n := len(server.streams); n != 0 {
		t.Errorf("%d more streams were opened", n)
	}
}
