package fdbshim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// TestWatch: a watch has each event of its keys once and in order: what was before
// it was created, and what came later through another process.
func TestWatch(t *testing.T) {
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		store := newStore(t, cfg)
		_, client := serve(t, store, fdbshim.Options{})
		_, other := serve(t, store, fdbshim.Options{})
		var want []int64
		for range 10 {
			want = append(want, put(t, client, "/a/x", "1"))
			put(t, client, "/b", "")
		}
		w := watch(t, client, "/a/", clientv3.WithPrefix(), clientv3.WithRev(want[2]))
		for range 10 {
			want = append(want, put(t, other, "/a/x", "2"))
		}
		if got := w.revisions(len(want) - 2); !slices.Equal(got, want[2:]) {
			t.Errorf("got %v, want %v", got, want[2:])
		}
		if _, err := other.Delete(soon(t), "/a/x"); err != nil {
			t.Fatal(err)
		}
		if e := w.next().Events[0]; e.Type != clientv3.EventTypeDelete || string(e.PrevKv.Value) != "2" {
			t.Errorf("got %v", e)
		}
	})
}

// TestProgress: it tells of the last commit, behind all events, and stands there. Of
// a FoundationDB that is below what reads have; not so of an etcd.
func TestProgress(t *testing.T) {
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		_, client := serve(t, newStore(t, cfg), fdbshim.Options{})
		w := watch(t, client, "/a")
		for range 50 {
			last := put(t, client, "/b", "")
			read := get(t, client, "/b").Header.Revision
			if got := w.progress(); got != last || cfg.LikeEtcd != (got == read) && read == last {
				t.Fatalf("progress %d; the last write has %d, and was read at %d", got, last, read)
			}
		}
		at := put(t, client, "/a", "")
		w.request()
		if resp := w.next(); len(resp.Events) != 1 {
			t.Fatalf("got %+v, want the event first", resp)
		}
		if resp := w.next(); !resp.IsProgressNotify() || resp.Header.Revision != at {
			t.Errorf("got %+v, want progress", resp)
		}
		eventually(t, "reads run away from progress, unless like etcd's", func() bool {
			read := get(t, client, "/b").Header.Revision
			return w.progress() == at && cfg.LikeEtcd == (read == at)
		})
	})
}

// TestProgressOfTheFuture: an etcd is silent while a watch begins above its revision.
func TestProgressOfTheFuture(t *testing.T) {
	_, client := serve(t, newStore(t, fdbshim.Config{LikeEtcd: true}), fdbshim.Options{})
	w := watch(t, client, "/a", clientv3.WithRev(4))
	w.request()
	put(t, client, "/a", "") // 2
	put(t, client, "/b", "")
	w.request()
	put(t, client, "/a", "")
	if got := w.revisions(1); got[0] != 4 {
		t.Errorf("got %v", got)
	}
	if got := w.progress(); got != 4 {
		t.Errorf("progress %d", got)
	}
}

// TestProgressNotify: a watch that asked for it once is told of progress, others are
// not.
func TestProgressNotify(t *testing.T) {
	_, client := serve(t, newStore(t, fdbshim.Config{}), fdbshim.Options{ProgressInterval: time.Millisecond})
	at := put(t, client, "/b", "")
	silent := watch(t, client, "/a")
	told := watch(t, client, "/a", clientv3.WithProgressNotify())
	for range 3 {
		if resp := told.next(); !resp.IsProgressNotify() || resp.Header.Revision != at {
			t.Errorf("got %+v", resp)
		}
	}
	put(t, client, "/a", "")
	silent.revisions(1)
}

// TestSharedStream: watches of one stream are told of progress together, and one
// that is cancelled leaves the other.
func TestSharedStream(t *testing.T) {
	_, client := serve(t, newStore(t, fdbshim.Config{}), fdbshim.Options{})
	w := watch(t, client, "/a")
	ctx, cancel := context.WithCancel(w.ctx)
	second := w.watcher.Watch(ctx, "/b", clientv3.WithCreatedNotify())
	if resp := <-second; !resp.Created {
		t.Fatalf("got %+v", resp)
	}
	at := put(t, client, "/c", "")
	if got := w.progress(); got != at {
		t.Errorf("progress %d, want %d", got, at)
	}
	if resp := <-second; !resp.IsProgressNotify() || resp.Header.Revision != at {
		t.Errorf("got %+v, want progress too", resp)
	}
	cancel()
	for range second { // until it is closed
	}
	at = put(t, client, "/a", "")
	if got := w.revisions(1); got[0] != at {
		t.Errorf("got %v", got)
	}
}

// TestHoldWatches: while watches are held other calls are answered, and nothing is
// lost.
func TestHoldWatches(t *testing.T) {
	server, client := serve(t, newStore(t, fdbshim.Config{}), fdbshim.Options{})
	w := watch(t, client, "/a")
	server.Watches.Hold()
	var want []int64
	for range 100 {
		want = append(want, put(t, client, "/a", ""))
		w.request()
	}
	if len(w.out) > 0 {
		t.Errorf("got %+v while watches are held", w.next())
	}
	server.Watches.Release()
	if got := w.revisions(len(want)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	server.Watches.Hold() // and closed with that
	put(t, client, "/a", "")
}
