package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Tap is how the owner of a cache's watch follows the etcd watch behind it. Its
// methods are called one at a time, in the order of what came from etcd and before
// the watch delivers it, and must not block.
type Tap interface {
	// Opened tells that etcd has confirmed the watch, on a gRPC stream that it
	// shares with no other; again when a stream that broke was replaced. kick asks
	// for progress on that stream, without waiting for anything. When the stream has ended it fails, and leaves
	// nothing behind.
	Opened(kick func(context.Context) error)
	// Revision tells that the watch will deliver this many events of one revision,
	// and that they are all: etcd does not split a revision over responses. A
	// storage between the watch and the cache must make one event of each.
	Revision(revision uint64, events int)
	// Progress tells that etcd answered a kick: every event at or below revision was
	// told by Revision before. The watch delivers the report as well, unless taken is
	// true: the Tap's owner then makes use of it by itself.
	Progress(revision uint64) (taken bool)
	// Closed tells that the watch has ended. Nothing is told after it.
	Closed()
}

type tapKey struct{}

// WithTap marks a context: a watch that is opened with it through a Watcher gets
// a gRPC stream of its own and reports to tap.
func WithTap(ctx context.Context, tap Tap) context.Context {
	return tapContext{ctx, tap}
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
// No stream hands clientv3 what it would panic of or lose a watch by, whatever the
// server sends (see checked.go). A tapped watch begins one revision below where it is
// asked to, so that a compaction in between shows.
//
// Unique metadata would separate the streams of one clientv3.Watcher too, but
// there a progress request that comes after its watch has ended opens a stream
// that nothing closes.
type Watcher struct {
	client *clientv3.Client
	tapped pb.WatchClient
	shared clientv3.Watcher
	life   context.Context // ends with Close
	end    context.CancelFunc

	open sync.WaitGroup // tapped watches

	mu      sync.Mutex     // orders Watch and Close
	sharing map[string]int // shared watches, by their metadata
}

var _ clientv3.Watcher = (*Watcher)(nil)

// NewWatcher returns a Watcher over the connection of client.
//
// A connection takes as many watches as its server allows streams (etcd's
// --max-concurrent-streams); those beyond wait for ever. See NewWatcherOver.
func NewWatcher(client *clientv3.Client) *Watcher {
	return NewWatcherOver(client, client.ActiveConnection())
}

// NewWatcherOver returns a Watcher whose tapped watches open their streams on conn, which
// may be more than one connection.
func NewWatcherOver(client *clientv3.Client, conn grpc.ClientConnInterface) *Watcher {
	return newWatcher(client, pb.NewWatchClient(conn), pb.NewWatchClient(client.ActiveConnection()))
}

func newWatcher(client *clientv3.Client, tapped, shared pb.WatchClient) *Watcher {
	life, end := context.WithCancel(context.Background())
	return &Watcher{
		client: client, tapped: tapped, shared: clientv3.NewWatchFromWatchClient(checkedClient{WatchClient: shared}, client),
		life: life, end: end, sharing: map[string]int{},
	}
}

// Watch is clientv3.Watcher.Watch. As there, ctx must be cancelled when the watch
// is no longer used.
func (w *Watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	tap, ok := TapFrom(ctx)
	if !ok {
		w.share(ctx)
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
// the metadata of ctx. It fails where there is none: clientv3 would open a stream for the
// request, which nothing closes. Tapped watches are asked through Tap.Opened's kick only.
func (w *Watcher) RequestProgress(ctx context.Context) error {
	w.mu.Lock()
	shared := w.sharing[metadataOf(ctx)]
	w.mu.Unlock()
	if shared == 0 {
		return errNoShared
	}
	return w.shared.RequestProgress(ctx)
}

var errNoShared = errors.New("progress: no watch to ask for progress")

// share counts a shared watch until its context ends.
func (w *Watcher) share(ctx context.Context) {
	key := metadataOf(ctx)
	add := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.sharing[key] += n; w.sharing[key] == 0 {
			delete(w.sharing, key)
		}
	}
	add(1)
	context.AfterFunc(ctx, func() { add(-1) })
}

// metadataOf is what shared watches have in common that share a stream.
func metadataOf(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return fmt.Sprint(md)
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
	line := &line{tap: tap}
	defer line.close()
	own := clientv3.NewWatchFromWatchClient(checkedClient{WatchClient: w.tapped, line: line}, w.client)
	defer own.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Close must also end a watch that etcd has not answered yet.
	stop := context.AfterFunc(w.life, cancel)
	defer stop()
	for resp := range own.Watch(ctx, key, opts...) {
		select {
		case out <- resp:
		case <-ctx.Done():
			return
		}
	}
}
