package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch is an etcd watch on a gRPC stream of its own, as a progress.Watcher has it, and
// what came on it in the order of the wire.
type watch struct {
	stream pb.Watch_WatchClient
	cancel context.CancelFunc
	ended  chan struct{}
	send   sync.Mutex

	mu        sync.Mutex
	changed   chan struct{} // closed, and another, at each response
	created   bool
	createdAt int64
	through   int64 // the highest report of progress
	replies   int
	backwards int
	overtaken int    // events at or below a report that came before them
	example   string // of the first of these
	newest    int64  // the highest event
	events    map[int64]bool
	err       error
}

// openWatch watches a folder, from a revision or from now (0), and returns when that is
// confirmed.
func openWatch(ctx context.Context, client *clientv3.Client, folder string, from int64) (*watch, error) {
	life, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(life)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch of %s: %w", folder, err)
	}
	w := &watch{stream: stream, cancel: cancel, ended: make(chan struct{}), changed: make(chan struct{}), events: map[int64]bool{}}
	go w.receive()
	err = w.sends(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte(folder), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(folder)), StartRevision: from, ProgressNotify: true, PrevKv: true,
	}}})
	if err == nil {
		err = w.await(ctx, func() bool { return w.created })
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("watch of %s: %w", folder, err)
	}
	return w, nil
}

// close returns when the stream has ended.
func (w *watch) close() {
	w.cancel()
	<-w.ended
}

func (w *watch) sends(request *pb.WatchRequest) error {
	w.send.Lock() // gRPC takes one at a time
	defer w.send.Unlock()
	return w.stream.Send(request)
}

func (w *watch) receive() {
	defer close(w.ended)
	for {
		resp, err := w.stream.Recv()
		w.mu.Lock()
		if err == nil && resp.Canceled {
			err = fmt.Errorf("the backend canceled it: %s", resp.CancelReason)
		}
		if err == nil {
			w.takeLocked(resp)
		}
		w.err = err
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *watch) takeLocked(resp *pb.WatchResponse) {
	at := resp.Header.GetRevision()
	switch {
	case resp.Created:
		w.created, w.createdAt = true, at
	case len(resp.Events) == 0 && !resp.Fragment: // kine's reports name a watch, too
		w.replies++
		if at < w.through {
			w.backwards++
		}
		w.through = max(w.through, at)
	}
	for _, event := range resp.Events {
		rev := event.Kv.ModRevision
		if rev <= w.through {
			if w.overtaken++; w.example == "" {
				w.example = fmt.Sprintf("progress at revision %d, and after it the event of %s at revision %d", w.through, event.Kv.Key, rev)
			}
		}
		w.events[rev] = true
		w.newest = max(w.newest, rev)
	}
}

// await waits until ok, which is called with the lock held.
func (w *watch) await(ctx context.Context, ok func() bool) error {
	for {
		w.mu.Lock()
		done, err, changed := ok(), w.err, w.changed
		w.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// kick asks for progress.
func (w *watch) kick() error {
	return w.sends(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// Why a wait ended.
var (
	errPatience = errors.New("it did not come")
	errAgain    = errors.New("ask again")
)

// kickUntil asks for progress, again where no answer suffices, until ok or until patience
// ends, which is errPatience.
func (w *watch) kickUntil(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if err := w.kick(); err != nil {
			// What the stream ended with says more.
			return errors.Join(err, w.await(ctx, func() bool { return false }))
		}
		soon, cancel := context.WithTimeoutCause(ctx, wait, errAgain)
		err := w.await(soon, ok)
		cancel()
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// reach asks for progress until a reply more, and one at or above the revision.
func (w *watch) reach(ctx context.Context, revision int64) error {
	w.mu.Lock()
	before := w.replies
	w.mu.Unlock()
	return w.kickUntil(ctx, func() bool { return w.replies > before && w.through >= revision })
}

// answer asks for progress until a reply more.
func (w *watch) answer(ctx context.Context) error { return w.reach(ctx, 0) }

// seen is what of the events came.
func (w *watch) seen(revision int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[revision]
}
