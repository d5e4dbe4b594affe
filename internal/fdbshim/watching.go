package fdbshim

import (
	"bytes"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watch is one watch of a stream.
type watch struct {
	request *pb.WatchCreateRequest
	id      int64
	space   *space
	next    int64 // the first revision that it was not told of
	at      int64 // the last commit that it was told of, or passed over
	synced  bool  // all that it begins with was delivered
	commits int   // that it had events of

	heldSince time.Time // when there first was what is held back; zero: nothing is
	overtaken bool      // by progress: it is held back no more
}

// advanceLocked goes on to the newest revision that the watch may know, and returns
// what there is to say of it: nil for nothing. Held is after what time there may be
// more, 0 where only a commit brings more.
func (w *watch) advanceLocked(server *Server) (resp *pb.WatchResponse, held time.Duration) {
	sp, faults, lag := w.space, server.Faults(), server.opts.Lag
	if w.next <= sp.dropped {
		return &pb.WatchResponse{WatchId: w.id, CompactRevision: sp.compacted}, 0
	}
	to := sp.last
	if faults.WatchesLag {
		if to = max(w.at, sp.lagging(lag)); to < sp.last {
			held = lag / 4 // it is not worth finding out how long exactly
		}
	}
	next, commits := w.next, w.commits
	var events []*mvccpb.Event
	for _, c := range sp.since(w.next, to) {
		if of := w.of(c.events); len(of) > 0 {
			w.commits++
			if !faults.LoseEvents || w.commits%4 != 0 {
				events = append(events, of...)
			}
		}
	}
	if len(events) > 0 && w.isHeld(faults, lag) {
		w.commits = commits
		return nil, max(time.Millisecond, lag-time.Since(w.heldSince))
	}
	w.next, w.at = max(next, to+1), to
	w.synced, w.heldSince, w.overtaken = true, time.Time{}, false
	if len(events) == 0 {
		return nil, held
	}
	return &pb.WatchResponse{Header: server.header(to), WatchId: w.id, Events: events}, held
}

// isHeld tells whether events wait for progress to overtake them.
func (w *watch) isHeld(faults Faults, lag time.Duration) bool {
	holds := faults.ProgressAheadOfCatchUp
	if w.synced {
		holds = faults.ProgressAheadOfLive
	}
	if !holds || w.overtaken {
		return false
	}
	if w.heldSince.IsZero() {
		w.heldSince = time.Now()
	}
	return time.Since(w.heldSince) < lag
}

// of are the events that the watch asked for, as it asked for them.
func (w *watch) of(all []*mvccpb.Event) (events []*mvccpb.Event) {
	for _, e := range all {
		if !w.has(e.Kv.Key) || slices.Contains(w.request.Filters, filterOf[e.Type]) {
			continue
		}
		if !w.request.PrevKv {
			e = &mvccpb.Event{Type: e.Type, Kv: e.Kv}
		}
		events = append(events, e)
	}
	return events
}

// filterOf is what leaves events of a type out.
var filterOf = map[mvccpb.Event_EventType]pb.WatchCreateRequest_FilterType{
	mvccpb.Event_PUT: pb.WatchCreateRequest_NOPUT, mvccpb.Event_DELETE: pb.WatchCreateRequest_NODELETE,
}

func (w *watch) has(key []byte) bool {
	from, end := w.request.Key, w.request.RangeEnd
	switch {
	case len(end) == 0:
		return bytes.Equal(key, from)
	case string(end) == "\x00":
		return bytes.Compare(key, from) >= 0
	}
	return bytes.Compare(key, from) >= 0 && bytes.Compare(key, end) < 0
}
