package progress

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// at is a response with a header of this revision.
func at(revision int64, resp *pb.WatchResponse) *pb.WatchResponse {
	resp.Header = &pb.ResponseHeader{Revision: revision}
	return resp
}

// play sends all of them; a stream that the client breaks off takes what it still can.
func (st *serverStream) play(responses ...*pb.WatchResponse) {
	for _, resp := range responses {
		if st.stream.Send(resp) != nil {
			return
		}
	}
}

// afterTheEnd is what panics in clientv3 when it comes for a watch that has ended.
func afterTheEnd(id int64) []*pb.WatchResponse {
	report := at(head, &pb.WatchResponse{WatchId: clientv3.InvalidWatchID})
	return []*pb.WatchResponse{
		report, eventsOf(id, []int64{20}), at(head, &pb.WatchResponse{WatchId: id, Canceled: true}), report,
		at(head, &pb.WatchResponse{WatchId: id, Created: true}), report,
	}
}

func canceled(id int64, reason string) *pb.WatchResponse {
	return at(head, &pb.WatchResponse{WatchId: id, Canceled: true, CancelReason: reason})
}

func inFragments(id int64, revisions ...int64) *pb.WatchResponse {
	resp := eventsOf(id, revisions)
	resp.Fragment = true
	return resp
}

// TestHostileServer: whatever a server sends on the stream of a tapped watch, in whatever
// state of it, the process lives, the watch loses nothing silently, and a kick of a stream
// that is over fails.
func TestHostileServer(t *testing.T) {
	const (
		resumes   = "goes on from where it was on a new stream"
		startOver = "ends as after a compaction"
	)
	report := func(revision int64) *pb.WatchResponse {
		return at(revision, &pb.WatchResponse{WatchId: clientv3.InvalidWatchID})
	}
	keyless := eventsOf(0, []int64{12})
	keyless.Events[0].Kv = nil
	createdWithEvents := eventsOf(1, []int64{12})
	createdWithEvents.Created = true
	late := eventsOf(0, []int64{10, 12})
	for name, test := range map[string]struct {
		fresh bool // no event came before
		play  []*pb.WatchResponse
		want  string
	}{
		"ended in the middle of traffic":          {play: []*pb.WatchResponse{canceled(0, "too slow")}, want: resumes},
		"ended without a reason":                  {play: []*pb.WatchResponse{canceled(0, "")}, want: resumes},
		"ended as soon as it was created":         {fresh: true, play: []*pb.WatchResponse{canceled(0, "no")}, want: startOver},
		"compacted":                               {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{Canceled: true, CompactRevision: 7})}, want: startOver},
		"compacted, of a negative revision":       {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{Canceled: true, CompactRevision: -7})}, want: startOver},
		"compacted, without an end":               {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{CompactRevision: 7})}, want: startOver},
		"compacted, as a fragment":                {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{Canceled: true, CompactRevision: 7, Fragment: true})}, want: startOver},
		"another watch ended":                     {play: []*pb.WatchResponse{canceled(7, "no")}, want: resumes},
		"created twice":                           {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{Created: true})}, want: resumes},
		"another was created":                     {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{WatchId: 1, Created: true})}, want: resumes},
		"another was created with events":         {play: []*pb.WatchResponse{createdWithEvents}, want: resumes},
		"refused after it was created":            {play: []*pb.WatchResponse{at(head, &pb.WatchResponse{WatchId: -1, Created: true, Canceled: true, CancelReason: "no"})}, want: resumes},
		"events of another watch":                 {play: []*pb.WatchResponse{eventsOf(7, []int64{12})}, want: resumes},
		"events of the watch id of reports":       {play: []*pb.WatchResponse{eventsOf(-1, []int64{12})}, want: resumes},
		"an event without a key":                  {play: []*pb.WatchResponse{keyless}, want: resumes},
		"events that go back":                     {play: []*pb.WatchResponse{eventsOf(0, []int64{10})}, want: startOver},
		"events that go back in a response":       {play: []*pb.WatchResponse{eventsOf(0, []int64{14, 13})}, want: startOver},
		"events that go back in fragments":        {play: []*pb.WatchResponse{inFragments(0, 14), eventsOf(0, []int64{13})}, want: startOver},
		"events from below the last":              {play: []*pb.WatchResponse{late}, want: startOver},
		"an event of no revision":                 {play: []*pb.WatchResponse{eventsOf(0, []int64{0})}, want: startOver},
		"an event of a negative revision":         {play: []*pb.WatchResponse{at(head, eventsOf(0, []int64{-3}))}, want: startOver},
		"an event of the last revision there is":  {play: []*pb.WatchResponse{at(head, eventsOf(0, []int64{math.MaxInt64}))}, want: resumes},
		"a report of a negative revision":         {play: []*pb.WatchResponse{report(-3)}, want: resumes},
		"a report of the last revision there is":  {play: []*pb.WatchResponse{report(math.MaxInt64)}, want: resumes},
		"a report between fragments":              {play: []*pb.WatchResponse{inFragments(0, 12, 12), report(12)}, want: resumes},
		"an end between fragments":                {play: []*pb.WatchResponse{inFragments(0, 12, 12), canceled(0, "no")}, want: resumes},
		"a creation between fragments":            {play: []*pb.WatchResponse{inFragments(0, 12, 12), at(head, &pb.WatchResponse{Created: true})}, want: resumes},
		"fragments of another watch":              {play: []*pb.WatchResponse{inFragments(7, 12, 12)}, want: resumes},
		"a report of this watch that goes back":   {play: []*pb.WatchResponse{at(3, &pb.WatchResponse{}), canceled(0, "no")}, want: resumes},
		"a report that goes back":                 {play: []*pb.WatchResponse{report(3), canceled(0, "no")}, want: resumes},
		"reports of no revision, and no header":   {play: []*pb.WatchResponse{report(0), {WatchId: -1}, {}, canceled(0, "no")}, want: resumes},
		"ended, with a header of a late revision": {play: []*pb.WatchResponse{at(900, &pb.WatchResponse{Canceled: true})}, want: resumes},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWatchServer(t)
			watcher := NewWatcher(server.client)
			defer watcher.Close()
			tap := newTapLog()
			out := watcher.Watch(WithTap(t.Context(), tap), "a", clientv3.WithRev(11))
			st := next(t, server.streams, "a stream")
			st.create(t)
			st.created(t, 0)
			kick := next(t, tap.opened, "Opened")
			from := int64(11)
			if !test.fresh {
				st.events(t, 0, 11)
				wantRevisions(t, out, 11)
				from = 12
			}
			st.play(append(test.play, afterTheEnd(0)...)...)
			switch test.want {
			case resumes:
				replacing := next(t, server.streams, "a new stream")
				<-st.ended
				if got := replacing.create(t).StartRevision; got != overlap(from) {
					t.Errorf("the watch goes on from %d, want %d", got, overlap(from))
				}
				replacing.created(t, 5)
				next(t, tap.opened, "Opened again")
				replacing.events(t, 5, from)
				wantRevisions(t, out, from)
			case startOver:
				if resp := next(t, out, "the end"); resp.Err() != rpctypes.ErrCompacted {
					t.Errorf("got %+v, %v; want that of a compaction", resp, resp.Err())
				}
				wantClosed(t, out, "the watch")
				<-st.ended
			}
			if kick(t.Context()) == nil {
				t.Error("the stream that is over was kicked")
			}
		})
	}
}

// TestHostileCreation: a watch that is refused in an unheard-of way ends with an error.
func TestHostileCreation(t *testing.T) {
	for name, test := range map[string]struct {
		resp *pb.WatchResponse
		want error // nil: any
	}{
		"created and canceled":               {&pb.WatchResponse{Created: true, Canceled: true}, nil},
		"created and canceled with a reason": {&pb.WatchResponse{Created: true, Canceled: true, CancelReason: rpctypes.ErrPermissionDenied.Error()}, rpctypes.ErrPermissionDenied},
		"created and compacted":              {&pb.WatchResponse{Created: true, CompactRevision: 7}, rpctypes.ErrCompacted},
		"created, canceled and compacted":    {&pb.WatchResponse{Created: true, Canceled: true, CompactRevision: 7}, rpctypes.ErrCompacted},
		"created under the id of reports":    {&pb.WatchResponse{WatchId: -1, Created: true}, nil},
		"created under a negative id":        {&pb.WatchResponse{WatchId: -9, Created: true}, nil},
	} {
		for _, tapped := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", shared"}[tapped], func(t *testing.T) {
				server := newWatchServer(t)
				watcher := NewWatcher(server.client)
				defer watcher.Close()
				ctx, tap := t.Context(), newTapLog()
				if tapped {
					ctx = WithTap(ctx, tap)
				}
				outs := make(chan clientv3.WatchChan, 1)
				go func() { outs <- watcher.Watch(ctx, "a", clientv3.WithRev(5)) }()
				st := next(t, server.streams, "a stream")
				st.create(t)
				st.play(append([]*pb.WatchResponse{test.resp}, afterTheEnd(max(test.resp.WatchId, 0))...)...)
				out := next(t, outs, "the watch")
				resp := next(t, out, "the error")
				if err := resp.Err(); err == nil || test.want != nil && err != test.want {
					t.Errorf("got %+v, %v; want %v", resp, err, test.want)
				}
				wantClosed(t, out, "the watch")
				tap.wantNoMore(t)
				<-st.ended
			})
		}
	}
}

// shared opens watches that share a stream, with ids from 0, and takes an event of each.
func shared(t *testing.T, server *watchServer, watcher *Watcher, n int) (*serverStream, []clientv3.WatchChan) {
	t.Helper()
	outs := make([]clientv3.WatchChan, n)
	var st *serverStream
	for i := range outs {
		var opening sync.WaitGroup
		opening.Go(func() { outs[i] = watcher.Watch(t.Context(), "a", clientv3.WithRev(11)) })
		if st == nil {
			st = next(t, server.streams, "the shared stream")
		}
		st.create(t)
		st.created(t, int64(i))
		opening.Wait()
		st.events(t, int64(i), 11)
		wantRevisions(t, outs[i], 11)
	}
	return st, outs
}

// TestHostileServerOfSharedWatches: the same of watches that share a stream. None
// of them is lost silently.
func TestHostileServerOfSharedWatches(t *testing.T) {
	report := at(11, &pb.WatchResponse{WatchId: clientv3.InvalidWatchID})
	resumed := func(t *testing.T, server *watchServer, outs []clientv3.WatchChan) {
		t.Helper()
		st := next(t, server.streams, "a new stream")
		for i := range outs {
			if got := st.create(t).StartRevision; got != 12 {
				t.Errorf("a watch goes on from %d, want 12", got)
			}
			st.created(t, int64(i))
		}
		for i := range outs {
			st.events(t, int64(i), 12)
		}
		for _, out := range outs {
			wantRevisions(t, out, 12)
		}
	}
	for name, play := range map[string][]*pb.WatchResponse{
		"ended":                      {canceled(0, "too slow")},
		"ended twice":                {canceled(0, "too slow"), canceled(0, "too slow")},
		"created twice":              {at(head, &pb.WatchResponse{Created: true})},
		"an event without a key":     {{WatchId: 1, Events: []*mvccpb.Event{{}}}},
		"a report amid fragments":    {inFragments(0, 12), at(12, &pb.WatchResponse{WatchId: -1})},
		"the last revision there is": {at(math.MaxInt64, &pb.WatchResponse{WatchId: -1})},
	} {
		t.Run(name, func(t *testing.T) {
			server := newWatchServer(t)
			watcher := NewWatcher(server.client)
			defer watcher.Close()
			st, outs := shared(t, server, watcher, 2)
			st.play(append(play, afterTheEnd(0)...)...)
			resumed(t, server, outs)
		})
	}
	t.Run("ended as soon as it was created", func(t *testing.T) {
		server := newWatchServer(t)
		watcher := NewWatcher(server.client)
		defer watcher.Close()
		st, outs := shared(t, server, watcher, 1)
		third := make(chan clientv3.WatchChan, 1)
		go func() { third <- watcher.Watch(t.Context(), "a", clientv3.WithRev(5)) }()
		st.create(t)
		st.created(t, 1)
		st.play(canceled(1, "no"), report, canceled(1, "no"), report)
		if resp := next(t, next(t, third, "the watch"), "the end"); resp.Err() != rpctypes.ErrCompacted {
			t.Errorf("got %v, want that of a compaction", resp.Err())
		}
		for {
			// clientv3 says that it let go of it; only then is its id forgotten.
			if cancel := next(t, st.requests, "a cancel request").GetCancelRequest(); cancel != nil && cancel.WatchId == 1 {
				break
			}
		}
		for range 2 {
			if resp := next(t, outs[0], "the report"); !resp.IsProgressNotify() {
				t.Errorf("the other watch was told %+v, want the reports", resp)
			}
		}
		st.play(canceled(1, ""), report)
		next(t, outs[0], "a report")
		st.events(t, 0, 12)
		wantRevisions(t, outs[0], 12)
	})
	t.Run("a second refused under the id of the first", func(t *testing.T) {
		server := newWatchServer(t)
		watcher := NewWatcher(server.client)
		defer watcher.Close()
		st, outs := shared(t, server, watcher, 1)
		second := make(chan clientv3.WatchChan, 1)
		go func() { second <- watcher.Watch(t.Context(), "a") }()
		st.create(t)
		st.play(at(head, &pb.WatchResponse{WatchId: 0, Created: true, Canceled: true, CancelReason: "no"}))
		for _, out := range []clientv3.WatchChan{next(t, second, "the watch"), outs[0]} {
			if resp := next(t, out, "the refusal"); resp.Err() == nil {
				t.Errorf("got %+v, want an error", resp)
			}
			wantClosed(t, out, "the watch")
		}
		<-st.ended
	})
	t.Run("a second created under the id of the first", func(t *testing.T) {
		server := newWatchServer(t)
		watcher := NewWatcher(server.client)
		defer watcher.Close()
		st, outs := shared(t, server, watcher, 1)
		second := make(chan clientv3.WatchChan, 1)
		go func() { second <- watcher.Watch(t.Context(), "a", clientv3.WithRev(12)) }()
		st.create(t)
		st.created(t, 0)
		st = next(t, server.streams, "a new stream")
		for id := range int64(2) {
			st.create(t)
			st.created(t, id)
		}
		for id := range int64(2) {
			st.events(t, id, 12)
		}
		wantRevisions(t, outs[0], 12)
		wantRevisions(t, next(t, second, "the watch"), 12)
	})
	t.Run("fragments of two at once", func(t *testing.T) {
		server := newWatchServer(t)
		watcher := NewWatcher(server.client)
		defer watcher.Close()
		st, outs := shared(t, server, watcher, 2)
		st.fragment(t, 0, 12, 12)
		st.fragment(t, 1, 12)
		st.events(t, 1, 13)
		st.events(t, 0, 12)
		wantRevisions(t, outs[1], 12, 13)
		wantRevisions(t, outs[0], 12, 12, 12)
	})
	t.Run("late messages of a canceled one", func(t *testing.T) {
		server := newWatchServer(t)
		watcher := NewWatcher(server.client)
		defer watcher.Close()
		st, outs := shared(t, server, watcher, 1)
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan clientv3.WatchChan, 1)
		go func() { second <- watcher.Watch(ctx, "a") }()
		st.create(t)
		st.created(t, 1)
		out := next(t, second, "the watch")
		cancel()
		wantClosed(t, out, "the watch")
		if request := next(t, st.requests, "a cancel request"); request.GetCancelRequest().GetWatchId() != 1 {
			t.Fatalf("got %v, want that watch 1 is canceled", request)
		}
		st.play(eventsOf(1, []int64{12}), inFragments(1, 13), report, canceled(1, ""), canceled(1, ""), eventsOf(1, []int64{14}), report)
		for range 2 {
			if resp := next(t, outs[0], "a report"); !resp.IsProgressNotify() {
				t.Errorf("got %+v, want the reports", resp)
			}
		}
	})
}

// TestEndlessFragments: a response that never ends takes bounded memory, of which whole ones
// give back theirs; its watch starts over.
func TestEndlessFragments(t *testing.T) {
	s := &checkedStream{watches: map[int64]*checkedWatch{1: {}, 2: {}}, room: 10 * perEvent}
	check := func(resp *pb.WatchResponse) *pb.WatchResponse {
		t.Helper()
		out, err := s.check(resp)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for i := int64(1); i < 100; i += 2 {
		if out := check(inFragments(1, i, i, i)); out != nil {
			t.Fatalf("a part was handed on: %+v", out)
		}
		var want []int64
		for range 5 {
			want = append(want, i)
		}
		out := check(eventsOf(1, []int64{i, i}))
		if got := revisionsOf(clientv3.WatchResponse{Events: out.Events}); !slices.Equal(got, want) {
			t.Fatalf("got revisions %v, want %v", got, want)
		}
	}
	check(inFragments(2, 1, 1))
	if s.room == 10*perEvent {
		t.Error("fragments are held and not counted")
	}
	parts := 0
	for ; s.watches[1].phase == phaseOpen; parts++ {
		if out := check(inFragments(1, 100)); out != nil && out.CompactRevision == 0 {
			t.Fatalf("got %+v", out)
		}
	}
	if parts > 8 {
		t.Errorf("%d parts were held", parts)
	}
	for _, resp := range []*pb.WatchResponse{eventsOf(1, []int64{101}), inFragments(1, 101), at(101, &pb.WatchResponse{WatchId: 1}), canceled(1, "")} {
		if out := check(resp); out != nil {
			t.Errorf("after the end of the watch %+v was handed on", out)
		}
	}
	check(eventsOf(2, []int64{1}))
	if s.room != 10*perEvent {
		t.Errorf("there is room for %d bytes at the end, want %d", s.room, 10*perEvent)
	}
}
