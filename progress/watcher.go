package progress

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// Tap is how the owner of a cache's watch follows the etcd watch behind it. Its
// methods are called in order, from one goroutine at a time, and must not block.
type Tap interface {
	// Opened tells that etcd has confirmed the watch, on a gRPC stream that it
	// shares with no other. kick asks for progress on that stream; after the
	// watch has ended it fails and leaves nothing behind. A watch that etcd
	// refused is opened and then closed; one that it never answered is neither.
	Opened(kick func(context.Context) error)
	// Revision tells that the watch is about to deliver this many events of one
	// revision, and that they are all: etcd does not split a revision over
	// responses.
	Revision(revision uint64, events int)
	// Progress tells that etcd reported progress: every event at or below revision
	// was told by Revision before. The watch delivers the report as well.
	Progress(revision uint64)
	// Closed tells that the watch has ended.
	Closed()
}

type tapKey struct{}

// WithTap marks a context: a watch that is opened with it through a Watcher gets
// a gRPC stream of its own and reports to tap.
func WithTap(ctx context.Context, tap Tap) context.Context {
	return context.WithValue(ctx, tapKey{}, tap)
}

// TapFrom is the Tap that a context carries, for storages that are not etcd and
// know the sizes of their revisions, or can be asked for progress, by themselves.
func TapFrom(ctx context.Context) (Tap, bool) {
	tap, ok := ctx.Value(tapKey{}).(Tap)
	return tap, ok
}

// Watcher is a clientv3.Watcher that gives each tapped watch a gRPC stream of its
// own, closed with the watch. Other watches share one watcher, as in clientv3. It
// is meant for the Watcher field of an etcd client, before a storage is built on
// that client.
//
// Unique metadata would separate the streams of one clientv3.Watcher too, but
// there a progress request that comes after its watch has ended opens a stream
// that nothing closes.
type Watcher struct {
	client *clientv3.Client
	shared clientv3.Watcher
	life   context.Context // ends with Close
	end    context.CancelFunc

	mu   sync.Mutex     // orders Watch and Close
	open sync.WaitGroup // tapped watches
}

var _ clientv3.Watcher = (*Watcher)(nil)

// NewWatcher returns a Watcher over the connection of client.
func NewWatcher(client *clientv3.Client) *Watcher {
	life, end := context.WithCancel(context.Background())
	return &Watcher{client: client, shared: clientv3.NewWatcher(client), life: life, end: end}
}

// Watch is clientv3.Watcher.Watch. As there, ctx must be cancelled when the watch
// is no longer used.
func (w *Watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	tap, ok := TapFrom(ctx)
	if !ok {
		return w.shared.Watch(ctx, key, opts...)
	}
	out := make(chan clientv3.WatchResponse)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil {
		close(out)
		return out
	}
	w.open.Go(func() { w.serve(ctx, tap, out, key, opts) })
	return out
}

// RequestProgress asks for progress on the shared watches whose context carries
// the metadata of ctx. Tapped watches are asked through Tap.Opened's kick only.
func (w *Watcher) RequestProgress(ctx context.Context) error {
	return w.shared.RequestProgress(ctx)
}

// Close ends all watches and returns when their goroutines have.
func (w *Watcher) Close() error {
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.open.Wait()
	return w.shared.Close()
}

// serve runs one tapped watch from its opening to its end.
func (w *Watcher) serve(ctx context.Context, tap Tap, out chan<- clientv3.WatchResponse, key string, opts []clientv3.OpOption) {
	defer close(out)
	own := clientv3.NewWatcher(w.client)
	defer own.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Close must also end a watch that etcd has not answered yet.
	stop := context.AfterFunc(w.life, cancel)
	defer stop()

	// clientv3 finds the stream of a context by its metadata, and tells empty from
	// none: so the watch gets what its kicks will carry.
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewOutgoingContext(ctx, md)
	in := own.Watch(ctx, key, opts...)
	if ctx.Err() != nil {
		return // perhaps before etcd has answered
	}
	// Watch returns when etcd has answered the create request. A progress request
	// goes out after it, on this stream and on any that replaces it.
	tap.Opened(func(kctx context.Context) error {
		return own.RequestProgress(metadata.NewOutgoingContext(kctx, md))
	})
	defer tap.Closed()
	for resp := range in {
		announce(tap, &resp)
		select {
		case out <- resp:
		case <-ctx.Done():
			return
		}
	}
}

// announce tells the tap what is in a response.
func announce(tap Tap, resp *clientv3.WatchResponse) {
	if resp.IsProgressNotify() {
		tap.Progress(uint64(resp.Header.Revision))
	}
	events := resp.Events
	for i := 0; i < len(events); {
		revision, first := events[i].Kv.ModRevision, i
		for i < len(events) && events[i].Kv.ModRevision == revision {
			i++
		}
		tap.Revision(uint64(revision), i-first)
	}
}
