package promise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/awake"
	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/podclient"
	"github.com/rvfloor/rvfloor/internal/sides"
)

const (
	// callTimeout is the deadline of each call: short, so that a kine that is away costs
	// little time, and far above what a call takes otherwise.
	callTimeout = 500 * time.Millisecond
	// pause is what a client waits after a failure: clients do not spin.
	pause = 20 * time.Millisecond
	// keep is how many violations of a kind are looked at.
	keep = 100_000
	// workers are the clients of each API server.
	workers = 4
	// There are so many namespaces, and names in each.
	namespaces, podNames = 2, 4
	// historyPrefix has all that API servers write.
	historyPrefix = "/registry/"
	startKey      = historyPrefix + "start"
	endKey        = historyPrefix + "end"
)

// load is clients of API servers that read and write, with all that they saw recorded.
type load struct {
	run     *linear.Run
	client  *clientv3.Client // of the first kine, past all API servers
	stop    context.CancelFunc
	working sync.WaitGroup
	history chan error // how reading it ended
	clock   *awake.Clock
	live    chan struct{} // closed when the raw client's watch has caught up

	// seen is what the raw client's watch had, and may be read when history is done.
	seen            map[event]bool
	reads, failures atomic.Int64 // reads that were answered, and calls that failed
	followed        atomic.Int64 // what watches have brought
	unordered       bool         // as the backend

	mu           sync.Mutex
	acknowledged map[event]bool
	late         time.Duration // by how much a call outlived its deadline, at most
}

// event is a write as a watch tells it: of a deletion, which has no value, by its revision.
type event struct {
	key, value string
	deleted    uint64
}

// startLoad lets clients work through the stores until finish.
func startLoad(t *testing.T, k *kines, stores ...storage.Interface) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	clock := awake.Start()
	t.Cleanup(clock.Stop)
	l := &load{clock: clock, run: linear.New(linear.Config{Prefix: sides.PodPrefix, SecondOpinion: podKeys(), Unordered: k.unordered, Keep: keep}), client: k.client, stop: stop, unordered: k.unordered,
		history: make(chan error, 1), live: make(chan struct{}), seen: map[event]bool{}, acknowledged: map[event]bool{}}
	events := k.client.Watch(t.Context(), historyPrefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	go func() { l.history <- l.tellHistory(events) }()
	// A watch that still catches up reads the database, and has what kine loses on those
	// that are live, as caches' are.
	if _, err := k.client.Put(ctx, startKey, ""); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.live:
	case err := <-l.history:
		t.Fatal(err)
	}
	for i, store := range stores {
		l.working.Go(func() { l.follow(ctx, store, fmt.Sprintf("watch of server %d", i)) })
		for j := range workers {
			client := l.run.Client(fmt.Sprintf("server %d client %d", i, j))
			w := &worker{load: l, random: rand.New(rand.NewPCG(uint64(i), uint64(j))), Client: podclient.Client{
				Store: store, Reads: client, Writes: []*linear.Client{client}, CreatedAnywhere: true}}
			l.working.Go(func() { w.work(ctx) })
		}
	}
	return l
}

// finish ends the clients and fails the test for what they saw.
func (l *load) finish(t *testing.T) {
	t.Helper()
	report := l.check(t)
	var lost []event
	for write := range l.acknowledged {
		if !l.seen[write] {
			lost = append(lost, write)
		}
	}
	if !l.unordered {
		lost = nil // kine loses none there
	}
	judge(t, report, lost)
	if l.followed.Load() == 0 {
		t.Error("no watch has brought anything")
	}
}

// check ends the clients and judges what they saw.
func (l *load) check(t *testing.T) *linear.Report {
	t.Helper()
	l.stop()
	l.working.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.client.Put(ctx, endKey, ""); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-l.history:
		if err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("the raw client did not hear of the end")
	}
	report := l.run.Check()
	t.Logf("%d operations, %d revisions; %d reads answered, %d calls failed, %v late at most; %v",
		report.Operations, report.Revisions, l.reads.Load(), l.failures.Load(), l.late, report.Counts)
	return report
}

// judge fails the test for all that is wrong, but for what is said of keys alone of which
// kine's own history lacks a write too: a raw client's, in the same run. That is kine#676,
// and no decorator can mend it.
func judge(t testing.TB, report *linear.Report, lost []event) {
	t.Helper()
	known := func(key string) bool {
		return slices.ContainsFunc(lost, func(write event) bool { return write.key == key })
	}
	ours, all := *report, report.Err()
	ours.Violations = slices.DeleteFunc(slices.Clone(report.Violations), func(v linear.Violation) bool {
		return v.Kind != linear.Future && len(v.Keys) > 0 && !slices.ContainsFunc(v.Keys, func(key string) bool { return !known(key) })
	})
	if err := ours.Err(); err != nil {
		t.Error(err)
	} else if all != nil {
		t.Logf("NOT COUNTED, kine#676: a raw client's own history lacks %v: %v", lost, all)
	}
	for kind, n := range report.Counts {
		if n > keep {
			t.Errorf("%d times %s, of which not all could be looked at", n, kind)
		}
	}
}

// tellHistory tells what kine did, as a raw client's watch has it, up to the end key.
func (l *load) tellHistory(events clientv3.WatchChan) error {
	for resp := range events {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("the raw client's watch: %w", err)
		}
		for _, told := range resp.Events {
			revision := linear.Revision{Revision: uint64(told.Kv.ModRevision)}
			key, pod, err := sides.DecodePod(told.Kv.Key, told.Kv.Value)
			if err != nil {
				return err
			}
			if pod != nil {
				change := linear.Change{Key: key, Value: pod.Spec.Hostname, Deleted: told.Type == clientv3.EventTypeDelete}
				revision.Changes = []linear.Change{change}
				if change.Deleted {
					l.seen[event{key: key, deleted: revision.Revision}] = true
				} else {
					l.seen[event{key: key, value: change.Value}] = true
				}
			}
			if err := l.run.Truth(revision); err != nil {
				return err
			}
			switch string(told.Kv.Key) {
			case startKey:
				close(l.live)
			case endKey:
				return nil
			}
		}
	}
	return errors.New("the raw client's watch ended")
}

// follow lets an informer follow the store.
func (l *load) follow(ctx context.Context, store storage.Interface, name string) {
	client := podclient.Client{Store: store, Reads: l.run.Client(name)}
	l.followed.Add(int64(client.Follow(ctx, pause)))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// worker is one client of one API server.
type worker struct {
	*load
	podclient.Client
	random *rand.Rand
}

// work makes calls until ctx ends. A call that has begun then is let end.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		begun := w.clock.Now()
		err := w.step(call)
		w.outlived(call, w.clock.Now()-begun)
		cancel()
		if err != nil {
			w.failures.Add(1)
			sleep(ctx, pause)
		}
	}
}

// outlived notes by how much a call that took so long outlived its deadline.
func (w *worker) outlived(call context.Context, took time.Duration) {
	if call.Err() != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = max(w.late, took-callTimeout)
	}
}

func (w *worker) step(ctx context.Context) error {
	namespace, name := namespaceOf(w.random.IntN(namespaces)), podName(w.random.IntN(podNames))
	pod := podclient.NewPod(namespace, name)
	switch n := w.random.IntN(100); {
	case n < 8:
		revision, err := w.Create(ctx, pod)
		return w.wrote(event{key: sides.PodKey(namespace, name), value: pod.Spec.Hostname}, revision, err)
	case n < 20:
		revision, err := w.Update(ctx, pod)
		return w.wrote(event{key: sides.PodKey(namespace, name), value: pod.Spec.Hostname}, revision, err)
	case n < 26:
		revision, err := w.Delete(ctx, namespace, name)
		return w.wrote(event{key: sides.PodKey(namespace, name), deleted: revision}, revision, err)
	case n < 60:
		_, err := w.List(ctx, namespace, sides.Everything(""))
		return w.read(err)
	case n < 75:
		_, err := w.List(ctx, namespace, sides.Everything("0"))
		return w.read(err)
	default:
		return w.read(w.Get(ctx, namespace, name, []string{"", "0"}[w.random.IntN(2)]))
	}
}

func namespaceOf(i int) string { return fmt.Sprintf("n%d", i) }
func podName(i int) string     { return fmt.Sprintf("pod-%d", i) }

// podKeys are the keys of all pods that there may be.
func podKeys() (keys []string) {
	for i := range namespaces {
		for j := range podNames {
			keys = append(keys, sides.PodKey(namespaceOf(i), podName(j)))
		}
	}
	return keys
}

// read counts a read that was answered.
func (w *worker) read(err error) error {
	if err == nil {
		w.reads.Add(1)
	}
	return err
}

// wrote notes a write that was acknowledged, at a revision; 0: it was not.
func (w *worker) wrote(as event, revision uint64, err error) error {
	if revision > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.acknowledged[as] = true
	}
	return err
}
