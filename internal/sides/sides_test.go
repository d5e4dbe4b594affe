package sides

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// start starts a lab with one port and a client behind it.
func start(t *testing.T) (*Lab, *clientv3.Client) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	l, err := Start(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Ports[0].Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return l, client
}

// TestHoldWatches: while watches are held back, other calls on the same connection
// are answered, and counted. A watch that is not held back would have its event
// long before a hundred of them were.
func TestHoldWatches(t *testing.T) {
	l, client := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := client.Watch(ctx, ElsewhereKey)
	write := func() int64 {
		revision, err := l.WriteElsewhere(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return int64(revision)
	}
	get := func() {
		if _, err := client.Get(ctx, ElsewhereKey); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(revision int64) {
		t.Helper()
		got := <-events
		if len(got.Events) != 1 || got.Events[0].Kv.ModRevision != revision {
			t.Fatalf("the watch has %+v, want an event at %d", got, revision)
		}
	}
	expect(write())

	port := l.Ports[0]
	port.Watches.Hold()
	defer port.Watches.Release()
	held := write()
	end := port.Measure()
	const gets = 100
	for range gets {
		get()
	}
	if counts := end(); counts.Ranges != gets || counts.Connections != 1 {
		t.Errorf("%+v, want %d ranges on one connection", counts, gets)
	}
	select {
	case got := <-events:
		t.Fatalf("the watch has %+v while it is held back", got)
	default:
	}
	port.Watches.Release()
	expect(held)
	expect(write())
}

// TestLeasePods: the pods go at one revision.
func TestLeasePods(t *testing.T) {
	l, client := start(t)
	const pods = 300
	prefix := etcdPrefix + PodPrefix + "leased/"
	end, err := l.LeasePods(t.Context(), "leased", pods)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count != pods {
		t.Fatalf("%d pods, %v; want %d", resp.Count, err, pods)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := client.Watch(ctx, prefix, clientv3.WithPrefix())
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-events
	if len(got.Events) != pods {
		t.Fatalf("%d events, want %d", len(got.Events), pods)
	}
	for _, e := range got.Events {
		if e.Type != clientv3.EventTypeDelete || e.Kv.ModRevision != got.Header.Revision {
			t.Fatalf("%v of %s at %d, want all deleted at %d", e.Type, e.Kv.Key, e.Kv.ModRevision, got.Header.Revision)
		}
	}
}

func TestPercentile(t *testing.T) {
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for p, want := range map[float64]time.Duration{50: 100, 90: 180, 99: 198, 100: 200} {
		if got := Percentile(sorted, p); got != want {
			t.Errorf("p%v of 1 to 200 is %d; want %d", p, got, want)
		}
	}
	if got := Percentile(sorted[:1], 50); got != 1 {
		t.Errorf("the median of one value is %d", got)
	}
}
