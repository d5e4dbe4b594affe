package progress

import (
	"context"
	"io"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The fuzzed server has a tapped watch and two that share a stream. Its streams are played
// an arbitrary script, and then break; the new ones are those of an honest server.

// fuzzWait only keeps a failing run from hanging.
const fuzzWait = 20 * time.Second

// fuzzRemote is a pb.WatchClient whose streams are those of one watcher, tapped or shared.
type fuzzRemote struct {
	tapped, shared chan *fuzzStream // streams as they are opened
}

type fuzzSide struct{}

// Watch is pb.WatchClient.
func (r *fuzzRemote) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	s := &fuzzStream{
		ctx: ctx, in: make(chan fuzzMessage), back: make(chan struct{}, 1),
		creates: make(chan *pb.WatchCreateRequest, 10_000), ids: map[int64]bool{},
	}
	if ctx.Value(fuzzSide{}) != nil {
		r.tapped <- s
	} else {
		r.shared <- s
	}
	return s, nil
}

type fuzzMessage struct {
	resp *pb.WatchResponse
	err  error
}

type fuzzStream struct {
	grpc.ClientStream
	ctx     context.Context
	in      chan fuzzMessage
	back    chan struct{} // Recv was called again
	called  bool          // Recv was
	creates chan *pb.WatchCreateRequest
	ids     map[int64]bool // watches that the script created
	last    int64          // the newest of them
	held    []int64        // revisions of events in fragments of which the rest is to come; of watch last
}

// Send is pb.Watch_WatchClient.
func (s *fuzzStream) Send(req *pb.WatchRequest) error {
	if create := req.GetCreateRequest(); create != nil {
		s.creates <- create
	}
	return s.ctx.Err()
}

// Recv is pb.Watch_WatchClient.
func (s *fuzzStream) Recv() (*pb.WatchResponse, error) {
	if s.called {
		s.back <- struct{}{}
	}
	s.called = true
	select {
	case message := <-s.in:
		return message.resp, message.err
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

// Context and CloseSend are pb.Watch_WatchClient.
func (s *fuzzStream) Context() context.Context     { return s.ctx }
func (s *fuzzStream) CloseSend() error             { return nil }
func (s *fuzzStream) Header() (metadata.MD, error) { return nil, nil }

// play returns when the next could be received, or the stream has ended.
func (s *fuzzStream) play(resp *pb.WatchResponse, err error) {
	select {
	case s.in <- fuzzMessage{resp, err}:
	case <-s.ctx.Done():
		return
	}
	select {
	case <-s.back:
	case <-s.ctx.Done():
	}
}

// fuzzWatch is one watch and what it brought.
type fuzzWatch struct {
	cancel    context.CancelFunc
	collected chan struct{} // closed at its end

	mu       sync.Mutex
	newest   int64          // revision of the newest event
	events   int            // that were brought
	brought  map[int64]bool // create revisions: the script numbers its events with them
	honestly chan struct{}  // closed when the honest server's event came
	failed   string
}

// fuzzNumber is the number of the honest server's events.
const fuzzNumber, fuzzLate = int64(1 << 40), int64(1 << 50)

func (w *fuzzWatch) collect(out clientv3.WatchChan) {
	defer close(w.collected)
	for resp := range out {
		w.mu.Lock()
		for _, event := range resp.Events {
			revision, number := event.Kv.ModRevision, event.Kv.CreateRevision
			switch {
			case revision < w.newest:
				w.failed = "an event came out of order"
			case w.brought[number]:
				w.failed = "an event came twice"
			case resp.Err() != nil:
				w.failed = "an event came with an error"
			}
			w.newest, w.brought[number] = revision, true
			w.events++
			if number == fuzzNumber {
				close(w.honestly)
			}
		}
		w.mu.Unlock()
	}
}

// fuzzTap holds what a tap is promised.
type fuzzTap struct {
	mu     sync.Mutex
	kick   func(context.Context) error
	stream *fuzzStream // the newest
	told   int         // events
	opened int
	closed bool
	failed string
}

func (t *fuzzTap) Opened(kick func(context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kick = kick
	t.opened++
	t.check()
}

func (t *fuzzTap) Revision(revision uint64, events int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told += events
	if events < 1 || revision == 0 || int64(revision) < 0 || t.opened == 0 {
		t.failed = "an impossible revision was told"
	}
	t.check()
}

func (t *fuzzTap) Progress(revision uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.stream; s != nil {
		for _, held := range s.held {
			if uint64(held) <= revision {
				t.failed = "progress was told before events that it covers"
			}
		}
	}
	if revision == 0 || int64(revision) < 0 || t.opened == 0 {
		t.failed = "impossible progress was told"
	}
	t.check()
	return revision%2 == 0
}

func (t *fuzzTap) Closed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check()
	t.closed = true
}

func (t *fuzzTap) check() {
	if t.closed {
		t.failed = "something was told after Closed"
	}
}

// fuzzRun is one script.
type fuzzRun struct {
	t       *testing.T
	watcher *Watcher
	remote  *fuzzRemote
	tap     *fuzzTap
	watches []*fuzzWatch // the first is the tapped one
	streams [2]*fuzzStream
	number  int64
}

func newFuzzRun(t *testing.T, starts [3]int64) *fuzzRun {
	r := &fuzzRun{t: t, remote: &fuzzRemote{tapped: make(chan *fuzzStream, 10_000), shared: make(chan *fuzzStream, 10_000)}}
	client := clientv3.NewCtxClient(context.Background(), clientv3.WithZapLogger(zap.NewNop()))
	r.watcher = newWatcher(client, r.remote, r.remote)
	r.tap = &fuzzTap{}
	for i, start := range starts {
		ctx, cancel := context.WithCancel(context.Background())
		if i == 0 {
			ctx = WithTap(context.WithValue(ctx, fuzzSide{}, true), r.tap)
		}
		w := &fuzzWatch{cancel: cancel, collected: make(chan struct{}), honestly: make(chan struct{}), brought: map[int64]bool{}}
		r.watches = append(r.watches, w)
		go func() { w.collect(r.watcher.Watch(ctx, "a", clientv3.WithRev(start))) }()
	}
	return r
}

// over says whether all watches of a side have ended.
func (r *fuzzRun) over(side int) bool {
	watches := r.watches[:1]
	if side == 1 {
		watches = r.watches[1:]
	}
	for _, w := range watches {
		select {
		case <-w.collected:
		default:
			return false
		}
	}
	return true
}

// stream is the stream of a side that is open, nil where all its watches have ended.
func (r *fuzzRun) stream(side int) *fuzzStream {
	opened := [2]chan *fuzzStream{r.remote.tapped, r.remote.shared}[side]
	for began := time.Now(); ; runtime.Gosched() {
		if s := r.streams[side]; s != nil && s.ctx.Err() == nil {
			return s
		}
		select {
		case s := <-opened:
			r.opened(side, s)
		default:
			if r.over(side) {
				return nil
			}
			if time.Since(began) > fuzzWait {
				r.t.Fatalf("side %d neither goes on nor ends", side)
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
}

func (r *fuzzRun) opened(side int, s *fuzzStream) {
	r.streams[side] = s
	if side == 0 {
		r.tap.mu.Lock()
		r.tap.stream = s
		r.tap.mu.Unlock()
	}
}

func (r *fuzzRun) events(id int64, revisions ...int64) *pb.WatchResponse {
	resp := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revisions[len(revisions)-1]}, WatchId: id}
	for _, revision := range revisions {
		r.number++
		resp.Events = append(resp.Events, &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: revision, CreateRevision: r.number}})
	}
	return resp
}

// step plays four bytes of a script.
func (r *fuzzRun) step(op, id, revision, n byte) {
	side := int(op >> 4 & 1)
	s := r.stream(side)
	if s == nil {
		return
	}
	rev := int64(revision)
	switch revision {
	case 255:
		rev = math.MaxInt64
	case 254:
		rev = -1
	}
	watch := int64(id % 8)
	switch watch {
	case 5:
		watch = -1
	case 6:
		watch = s.last
	case 7:
		watch = -7
	}
	header := &pb.ResponseHeader{Revision: rev}
	resp := &pb.WatchResponse{Header: header, WatchId: watch}
	switch op & 15 {
	case 0, 14: // an honest creation, as far as the id goes
		resp.Created = true
		if op&15 == 14 {
			resp.Events = r.events(watch, rev).Events
		}
		if op&0xe0 == 0 {
			select {
			case <-s.creates:
			case <-time.After(time.Millisecond):
			}
		}
		if watch >= 0 && !s.ids[watch] {
			s.ids[watch], s.last = true, watch
		}
	case 1:
		resp.WatchId = -1
	case 2, 6:
		revisions := []int64{rev}
		for i := range int64(n & 3) {
			revisions = append(revisions, rev+i*int64(n>>2&1))
		}
		resp = r.events(watch, revisions...)
	case 3:
		resp.Canceled = true
	case 4:
		resp.Canceled, resp.CompactRevision = true, rev
	case 5:
		resp.Created, resp.Canceled, resp.CompactRevision = true, true, int64(n&1)
	case 7:
		resp = r.events(watch, rev)
		resp.Events[0].Kv = nil
	case 8:
		resp = r.events(watch, rev, rev-1)
	case 9:
	case 10:
		resp.Header, resp.WatchId = nil, -1
	case 11:
		s.play(nil, []error{
			status.Error(codes.Unavailable, "fuzz"), status.Error(codes.Internal, "fuzz"), io.EOF, status.Error(codes.Unknown, "fuzz"),
		}[n%4])
		return
	case 12:
		r.watches[id%3].cancel()
		return
	case 13:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.tap.mu.Lock()
		kick := r.tap.kick
		r.tap.mu.Unlock()
		if side == 0 && kick != nil {
			_ = kick(ctx) // it may fail
		} else if side == 1 {
			_ = r.watcher.RequestProgress(ctx)
		}
		return
	case 15:
		resp.CompactRevision = rev
	}
	if op&0x20 != 0 {
		resp.CancelReason = "fuzz"
	}
	if op&0x40 != 0 || op&15 == 6 {
		resp.Fragment = true
	}
	if side == 0 && s.ids[resp.WatchId] && resp.WatchId == s.last && !resp.Created {
		r.tap.mu.Lock()
		if resp.Fragment && len(resp.Events) > 0 && len(s.ids) == 1 {
			for _, event := range resp.Events {
				s.held = append(s.held, event.GetKv().GetModRevision())
			}
		} else {
			s.held = nil
		}
		r.tap.mu.Unlock()
	}
	s.play(resp, nil)
}

// honest breaks the streams, and has those that follow bring an event to each watch: none
// that has not ended was lost on the way.
func (r *fuzzRun) honest() {
	for side := range r.streams {
		if s := r.stream(side); s != nil {
			s.play(nil, status.Error(codes.Unavailable, "the honest server begins"))
		}
	}
	began, id := time.Now(), int64(100)
	for !r.allHonest() {
		for side, opened := range []chan *fuzzStream{r.remote.tapped, r.remote.shared} {
			select {
			case s := <-opened:
				r.opened(side, s)
			default:
			}
			s := r.streams[side]
			if s == nil || s.ctx.Err() != nil {
				continue
			}
			select {
			case <-s.creates:
				id++
				s.play(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: fuzzLate}, WatchId: id, Created: true}, nil)
				event := &mvccpb.Event{Kv: &mvccpb.KeyValue{ModRevision: fuzzLate + id, CreateRevision: fuzzNumber}}
				s.play(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: fuzzLate + id}, WatchId: id, Events: []*mvccpb.Event{event}}, nil)
			default:
			}
		}
		if time.Since(began) > fuzzWait {
			r.t.Fatal("a watch has been lost: it has not ended, and brings nothing")
		}
		time.Sleep(20 * time.Microsecond)
	}
}

func (r *fuzzRun) allHonest() bool {
	for _, w := range r.watches {
		select {
		case <-w.honestly:
		case <-w.collected:
		default:
			return false
		}
	}
	return true
}

// end closes the watcher, and judges.
func (r *fuzzRun) end(early bool) {
	told := -1
	select {
	case <-r.watches[0].honestly:
		r.tap.mu.Lock()
		told = r.tap.told
		r.tap.mu.Unlock()
	default:
	}
	closed := make(chan struct{})
	go func() {
		r.watcher.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(fuzzWait):
		r.t.Fatal("Close does not return")
	}
	for i, w := range r.watches {
		w.cancel()
		select {
		case <-w.collected:
		case <-time.After(fuzzWait):
			r.t.Fatalf("watch %d is open after Close", i)
		}
		if w.failed != "" {
			r.t.Errorf("watch %d: %s", i, w.failed)
		}
	}
	if r.tap.failed != "" {
		r.t.Error(r.tap.failed)
	}
	if r.tap.opened > 0 && !r.tap.closed {
		r.t.Error("the tap does not know that the watch has ended")
	}
	if got := r.watches[0].events; told >= 0 && !early && got != told {
		r.t.Errorf("the watch brought %d events, and the tap was told of %d", got, told)
	}
	if r.tap.kick != nil && r.tap.kick(context.Background()) == nil {
		r.t.Error("a kick after the end succeeded")
	}
}

// FuzzHostileStream: whatever a server sends, kicks in between, nothing panics, each event
// is brought at most once and in the order of revisions, the tap is told of all that is
// brought and of no progress before it, no watch is lost that has not ended, Close returns,
// and no goroutine stays.
func FuzzHostileStream(f *testing.F) {
	const tapped, shared = 0, 16
	created := func(side, id byte) []byte { return []byte{side, id, 10, 0} }
	event := func(side, id, revision byte) []byte { return []byte{side + 2, id, revision, 0} }
	report := func(side, revision byte) []byte { return []byte{side + 1, 0, revision, 0} }
	script := func(head byte, steps ...[]byte) {
		data := []byte{head, 5, 5, 0}
		for _, step := range steps {
			data = append(data, step...)
		}
		f.Add(data)
	}
	both := []byte{tapped, shared}
	for _, head := range []byte{0, 1} {
		for _, side := range both {
			begin := [][]byte{created(side, 0), created(side, 1), event(side, 0, 11)}
			for op := range byte(16) {
				for _, flags := range []byte{0, 0x20, 0x40} {
					step := []byte{side + op + flags, 0, 9, 1}
					script(head, append(begin[:3:3], step, report(side, 12), step, event(side, 0, 13), report(side, 13))...)
				}
			}
			script(head, created(side, 0), []byte{side + 6, 0, 12, 1}, report(side, 12), event(side, 0, 12))
			script(head, created(side, 0), []byte{side + 6, 0, 12, 1}, event(side, 1, 12), event(side, 0, 12))
			script(head, []byte{side + 5 + 0x20, 5, 10, 0}, []byte{12, side / 16, 0, 0}, created(side, 1))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4 || len(data) > 400 {
			return
		}
		goroutines := runtime.NumGoroutine()
		r := newFuzzRun(t, [3]int64{int64(data[1] % 32), int64(data[2] % 32), int64(data[3] % 32)})
		for steps := data[4:]; len(steps) >= 4; steps = steps[4:] {
			r.step(steps[0], steps[1], steps[2], steps[3])
		}
		early := data[0]&1 != 0
		if !early {
			r.honest()
		}
		r.end(early)
		for began := time.Now(); runtime.NumGoroutine() > goroutines; time.Sleep(50 * time.Microsecond) {
			if time.Since(began) > fuzzWait {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines before, %d after:\n%s", goroutines, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
			}
		}
	})
}
