package fdbshim_test

import (
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// faulty starts a process with a fault. The time by which things lag is far above what
// the calls of a test take.
func faulty(t *testing.T, cfg fdbshim.Config, faults fdbshim.Faults) (*fdbshim.Server, *clientv3.Client) {
	t.Helper()
	return serve(t, newStore(t, cfg), fdbshim.Options{Faults: faults, Lag: 2 * time.Second})
}

func TestNoProgress(t *testing.T) {
	server, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{NoProgress: true})
	w := watch(t, client, "/a")
	for range 10 {
		w.request()
	}
	at := put(t, client, "/a", "") // a reply would come before its event
	if got := w.revisions(1); got[0] != at {
		t.Errorf("got %v", got)
	}
	server.SetFaults(fdbshim.Faults{})
	if got := w.progress(); got != at {
		t.Errorf("without the fault: %d", got)
	}
}

func TestProgressUnimplemented(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{ProgressUnimplemented: true})
	w := watch(t, client, "/a")
	w.request()
	resp, ok := <-w.out
	if ok && status.Code(resp.Err()) != codes.Unimplemented {
		t.Errorf("got %+v, want the watch ended", resp)
	}
}

func TestProgressBack(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{ProgressBack: true})
	w := watch(t, client, "/a")
	before, at := put(t, client, "/b", ""), put(t, client, "/b", "")
	for range 3 {
		if first, second := w.progress(), w.progress(); first != at || second != before {
			t.Errorf("progress at %d, then at %d; want %d and %d", first, second, at, before)
		}
	}
}

// TestProgressAhead: a reply comes before events at or below it, of those that a watch
// begins with and of those that come later.
func TestProgressAhead(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{ProgressAheadOfCatchUp: true, ProgressAheadOfLive: true})
	at := put(t, client, "/a", "")
	w := watch(t, client, "/a", clientv3.WithRev(at))
	for range 10 {
		if got := w.progress(); got != at {
			t.Errorf("progress %d, want %d before the event", got, at)
		}
		if got := w.revisions(1); got[0] != at {
			t.Errorf("got %v, want %d", got, at)
		}
		at = put(t, client, "/a", "")
	}
}

// TestProgressAheadUnasked: events that nothing overtakes come in the end.
func TestProgressAheadUnasked(t *testing.T) {
	_, client := serve(t, newStore(t, fdbshim.Config{}),
		fdbshim.Options{Faults: fdbshim.Faults{ProgressAheadOfCatchUp: true, ProgressAheadOfLive: true}, Lag: 10 * time.Millisecond})
	at := put(t, client, "/a", "")
	w := watch(t, client, "/a", clientv3.WithRev(at))
	for range 5 {
		if got := w.revisions(1); got[0] != at {
			t.Errorf("got %v, want %d", got, at)
		}
		at = put(t, client, "/a", "")
	}
}

func TestCreatedZero(t *testing.T) {
	server, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{CreatedZero: true})
	if got := watch(t, client, "/a").created; got != 0 {
		t.Errorf("created at %d", got)
	}
	server.SetFaults(fdbshim.Faults{})
	if got := watch(t, client, "/a").created; got == 0 {
		t.Error("without the fault: 0")
	}
}

// TestWatchesLag: progress does not pass the events that are late, and all come.
func TestWatchesLag(t *testing.T) {
	store := newStore(t, fdbshim.Config{})
	lag := 50 * time.Millisecond
	_, client := serve(t, store, fdbshim.Options{Faults: fdbshim.Faults{WatchesLag: true}, Lag: lag})
	w := watch(t, client, "/a")
	var want []int64
	start := time.Now()
	for range 5 {
		want = append(want, put(t, client, "/a", ""))
		w.request()
	}
	var got []int64
	for len(got) < len(want) {
		resp := w.next()
		if resp.IsProgressNotify() && resp.Header.Revision >= want[len(got)] {
			t.Errorf("progress %d before the event at %d", resp.Header.Revision, want[len(got)])
		}
		for _, e := range resp.Events {
			got = append(got, e.Kv.ModRevision)
		}
	}
	if took := time.Since(start); took < lag || !slices.Equal(got, want) {
		t.Errorf("got %v after %v, want %v", got, took, want)
	}
}

// TestLoseEvents: progress passes what never comes.
func TestLoseEvents(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{LoseEvents: true})
	w := watch(t, client, "/a")
	var want []int64
	for i := range 8 {
		if at := put(t, client, "/a", ""); i%4 != 3 {
			want = append(want, at)
			continue
		}
		if got := w.revisions(3); !slices.Equal(got, want[len(want)-3:]) {
			t.Errorf("got %v, want %v", got, want)
		}
		if last := get(t, client, "/a").Kvs[0].ModRevision; w.progress() != last {
			t.Errorf("progress is not at %d", last)
		}
	}
}

// TestReadsLag: what was acknowledged is not read, by the header or in the data.
func TestReadsLag(t *testing.T) {
	server, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{ReadsLag: true})
	other := connect(t, server)
	at := put(t, client, "/a", "")
	for who, client := range map[string]*clientv3.Client{"writer": client, "other": other} {
		if got := get(t, client, "/a"); got.Count != 0 || got.Header.Revision >= at {
			t.Errorf("%s: read %v at %d; written at %d", who, got.Kvs, got.Header.Revision, at)
		}
	}
	server.SetFaults(fdbshim.Faults{ReadsLagForOthers: true})
	if got := get(t, other, "/a"); got.Count != 0 || got.Header.Revision >= at {
		t.Errorf("another client read %v at %d; written at %d", got.Kvs, got.Header.Revision, at)
	}
	if got := get(t, client, "/a"); got.Count != 1 || got.Header.Revision < at {
		t.Errorf("the writer read %v at %d; written at %d", got.Kvs, got.Header.Revision, at)
	}
	server.SetFaults(fdbshim.Faults{ReadsLag: true})
	eventually(t, "the write is read", func() bool { return get(t, other, "/a").Count == 1 })
}

// TestMissingLags: only the read that finds nothing is old.
func TestMissingLags(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{LikeEtcd: true}, fdbshim.Faults{MissingLags: true})
	at := put(t, client, "/a", "")
	if got := get(t, client, "/missing").Header.Revision; got >= at {
		t.Errorf("missing at %d", got)
	}
	for name, got := range map[string]*clientv3.GetResponse{"there": get(t, client, "/a"), "range": get(t, client, "/m", clientv3.WithPrefix())} {
		if got.Header.Revision != at {
			t.Errorf("%s: at %d, want %d", name, got.Header.Revision, at)
		}
	}
}

func TestRefusals(t *testing.T) {
	server, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{})
	for name, test := range map[string]struct {
		faults fdbshim.Faults
		opts   []clientv3.OpOption
	}{
		"min mod":      {fdbshim.Faults{NoFilters: true}, []clientv3.OpOption{clientv3.WithMinModRev(1)}},
		"max mod":      {fdbshim.Faults{NoFilters: true}, []clientv3.OpOption{clientv3.WithMaxModRev(1)}},
		"min create":   {fdbshim.Faults{NoFilters: true}, []clientv3.OpOption{clientv3.WithMinCreateRev(1)}},
		"max create":   {fdbshim.Faults{NoFilters: true}, []clientv3.OpOption{clientv3.WithMaxCreateRev(1)}},
		"serializable": {fdbshim.Faults{NoSerializable: true}, []clientv3.OpOption{clientv3.WithSerializable()}},
	} {
		server.SetFaults(fdbshim.Faults{})
		get(t, client, "/a", test.opts...)
		server.SetFaults(test.faults)
		if _, err := client.Get(soon(t), "/a", test.opts...); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
		get(t, client, "/a")
	}
}

func TestZeroRevision(t *testing.T) {
	server, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{ZeroRevision: true})
	w := watch(t, client, "/a")
	for what, got := range map[string]int64{"put": put(t, client, "/a", ""), "get": get(t, client, "/a").Header.Revision, "created": w.created} {
		if got != 0 {
			t.Errorf("%s: %d", what, got)
		}
	}
	server.SetFaults(fdbshim.Faults{})
	if got := get(t, client, "/a").Header.Revision; got == 0 {
		t.Error("without the fault: 0")
	}
}

func TestOneWatchPerStream(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{}, fdbshim.Faults{OneWatchPerStream: true})
	w := watch(t, client, "/a")
	second := w.watcher.Watch(w.ctx, "/b")
	if resp := <-second; !resp.Canceled {
		t.Errorf("got %+v, want it refused", resp)
	}
	watch(t, client, "/b") // on another stream
	at := put(t, client, "/a", "")
	if got := w.revisions(1); got[0] != at {
		t.Errorf("got %v", got)
	}
}

// TestRevisionPerPrefix: a write moves the revision, and the progress, of its own
// prefix alone.
func TestRevisionPerPrefix(t *testing.T) {
	_, client := faulty(t, fdbshim.Config{LikeEtcd: true, RevisionPerPrefix: true}, fdbshim.Faults{})
	w := watch(t, client, "/registry/a/", clientv3.WithPrefix())
	for range 5 {
		put(t, client, "/registry/a/x", "")
	}
	w.revisions(5)
	at := put(t, client, "/registry/b/x", "")
	if at != 2 {
		t.Errorf("the first write of a prefix at %d", at)
	}
	if got := get(t, client, "/registry/a/y").Header.Revision; got != 6 {
		t.Errorf("read at %d", got)
	}
	if got := w.progress(); got != 6 {
		t.Errorf("progress %d", got)
	}
}
