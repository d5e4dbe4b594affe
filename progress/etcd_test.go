package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

const (
	// kickEach is as fast as progress overtook events most often on shared streams.
	kickEach = 200 * time.Microsecond
	// catchUp is how many revisions a re-created watch has missed.
	catchUp = 30
	// etcdPrefix is what the watches here see.
	etcdPrefix = "/progress/"
)

// rewatch is watches that are opened again and again from an old revision while
// progress is asked for all the time.
type rewatch struct {
	writer   *clientv3.Client
	workers  int // watches at once
	rounds   int // in all
	open     func(ctx context.Context, worker int, opts ...clientv3.OpOption) (clientv3.WatchChan, func(context.Context) error)
	overtook func(event, complete int64) // an event came after progress that covered it
	stop     func() bool                 // if set, ends the run early

	done    atomic.Int64
	replies atomic.Int64
}

func (r *rewatch) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var next atomic.Int64
	var wg sync.WaitGroup
	for worker := range r.workers {
		wg.Go(func() {
			for int(next.Add(1)) <= r.rounds && (r.stop == nil || !r.stop()) {
				if err := r.round(ctx, worker); err != nil {
					t.Error(err)
					return
				}
				r.done.Add(1)
			}
		})
	}
	wg.Wait()
}

// round opens one watch from an old revision, and ends when it has brought the
// newest event and progress at or above it. Kicks go on beside its end.
func (r *rewatch) round(ctx context.Context, worker int) error {
	put, err := r.writer.Put(ctx, etcdPrefix+"key", "value")
	if err != nil {
		return err
	}
	newest := put.Header.Revision
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, kick := r.open(ctx, worker, clientv3.WithPrefix(), clientv3.WithRev(newest-catchUp))
	var kicking sync.WaitGroup
	kicking.Go(func() { kickUntilDone(ctx, kick) })
	defer kicking.Wait()
	defer cancel()

	seen, complete := newest-catchUp-1, int64(0)
	for seen < newest || complete < newest {
		resp, ok := <-out
		if !ok || resp.Err() != nil {
			return fmt.Errorf("a watch ended: %w", errors.Join(resp.Err(), context.Cause(ctx)))
		}
		if resp.IsProgressNotify() {
			complete = max(complete, resp.Header.Revision)
			r.replies.Add(1)
		}
		for _, event := range resp.Events {
			revision := event.Kv.ModRevision
			if revision <= complete {
				r.overtook(revision, complete)
			}
			if revision > seen+1 {
				return fmt.Errorf("a watch brought revision %d after %d", revision, seen)
			}
			seen = revision
		}
	}
	return nil
}

func kickUntilDone(ctx context.Context, kick func(context.Context) error) {
	tick := time.NewTicker(kickEach)
	defer tick.Stop()
	for {
		if err := kick(ctx); err != nil {
			return // the watch has ended
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// newHistory is an etcd with enough revisions behind its newest.
func newHistory(t *testing.T) (*etcdlab.Cluster, *clientv3.Client) {
	cluster := etcdlab.Run(t, etcdlab.Config{Unix: true})
	writer := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	for range catchUp + 1 {
		if _, err := writer.Put(t.Context(), etcdPrefix+"key", "value"); err != nil {
			t.Fatal(err)
		}
	}
	return cluster, writer
}

// TestEtcdProgressNeverOvertakes: on a real etcd, with a Watcher, no progress comes
// before an event at or below it, and nothing is left of the watches.
func TestEtcdProgressNeverOvertakes(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	cluster, writer := newHistory(t)
	var counters etcdlab.Counters
	client := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{Counters: &counters})
	if _, err := client.Get(t.Context(), etcdPrefix); err != nil { // connects
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()

	watcher := NewWatcher(client)
	run := rewatch{writer: writer, workers: 32, rounds: rounds}
	run.open = func(ctx context.Context, _ int, opts ...clientv3.OpOption) (clientv3.WatchChan, func(context.Context) error) {
		tap := newTapLog()
		out := watcher.Watch(WithTap(ctx, tap), etcdPrefix, opts...)
		return out, <-tap.opened
	}
	run.overtook = func(event, complete int64) {
		t.Errorf("an event at %d came after progress at %d", event, complete)
	}
	run.run(t)
	if err := watcher.Close(); err != nil {
		t.Error(err)
	}

	counts, err := counters.Await(t.Context(), func(c etcdlab.Counts) bool { return c.WatchStreamsOpen == 0 })
	if err != nil {
		t.Fatal(err)
	}
	if counts.WatchCreates != int64(rounds) || counts.WatchStreams < int64(rounds) {
		t.Errorf("%d watches on %d streams, want %d, each on its own", counts.WatchCreates, counts.WatchStreams, rounds)
	}
	t.Logf("%d watches, %d streams, %d kicks, %d replies", counts.WatchCreates, counts.WatchStreams, counts.ProgressRequests, run.replies.Load())
	goleak.VerifyNone(t, before)
}

// TestEtcdProgressOvertakesOnASharedStream shows on the same etcd, with the same
// check, that the test above can see the fault: with clientv3's own watcher it comes
// to a watch that is opened where another is, and is kicked.
func TestEtcdProgressOvertakesOnASharedStream(t *testing.T) {
	cluster, writer := newHistory(t)
	client := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	var overtook atomic.Int64
	run := rewatch{writer: writer, workers: 16, rounds: 3000}
	run.stop = func() bool { return overtook.Load() > 0 }
	run.overtook = func(event, complete int64) { overtook.Add(1) }
	watchers := make([]clientv3.Watcher, run.workers)
	for i := range watchers {
		watchers[i] = clientv3.NewWatcher(client)
		ctx, cancel := context.WithCancel(t.Context())
		other := watchers[i].Watch(ctx, etcdPrefix, clientv3.WithPrefix())
		var around sync.WaitGroup
		around.Go(func() { kickUntilDone(ctx, watchers[i].RequestProgress) })
		around.Go(func() {
			for range other {
			}
		})
		t.Cleanup(func() {
			cancel()
			around.Wait()
			watchers[i].Close()
		})
	}
	run.open = func(ctx context.Context, worker int, opts ...clientv3.OpOption) (clientv3.WatchChan, func(context.Context) error) {
		return watchers[worker].Watch(ctx, etcdPrefix, opts...), watchers[worker].RequestProgress
	}
	run.run(t)
	if overtook.Load() == 0 {
		t.Fatalf("it did not come in %d watches. If etcd has mended it, say so in the package comment, and drop this test.", run.rounds)
	}
	t.Logf("it came after %d watches", run.done.Load())
}
