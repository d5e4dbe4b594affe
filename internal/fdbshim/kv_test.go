package fdbshim_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// both runs a test over both kinds of databases.
func both(t *testing.T, test func(t *testing.T, cfg fdbshim.Config)) {
	for name, cfg := range map[string]fdbshim.Config{"FoundationDB": {}, "LikeEtcd": {LikeEtcd: true}} {
		t.Run(name, func(t *testing.T) { test(t, cfg) })
	}
}

// TestRevisions: those of an etcd are dense, and stand still; those of a FoundationDB
// have gaps and run on. Neither goes back, whichever process answers.
func TestRevisions(t *testing.T) {
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		store := newStore(t, cfg)
		_, one := serve(t, store, fdbshim.Options{})
		_, other := serve(t, store, fdbshim.Options{})
		var gaps int
		last := get(t, one, "/a").Header.Revision
		if cfg.LikeEtcd && last != 1 {
			t.Errorf("empty at %d", last)
		}
		for range 20 {
			written := put(t, one, "/a", "x")
			read := get(t, other, "/a")
			again := get(t, one, "/a").Header.Revision
			if written <= last || read.Header.Revision < written || again < read.Header.Revision || read.Kvs[0].ModRevision != written {
				t.Fatalf("written at %d after %d, read as written at %d, at %d and %d", written, last, read.Kvs[0].ModRevision, read.Header.Revision, again)
			}
			if written > last+1 || again > written {
				gaps++
			}
			last = again
		}
		if cfg.LikeEtcd != (gaps == 0) {
			t.Errorf("%d of 20 writes and reads left a gap", gaps)
		}
		eventually(t, "the read version runs on, unless like etcd's", func() bool {
			return cfg.LikeEtcd == (get(t, one, "/a").Header.Revision == last)
		})
	})
}

// TestRange: pages, the past, counts, filters, orders.
func TestRange(t *testing.T) {
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		_, client := serve(t, newStore(t, cfg), fdbshim.Options{})
		var at []int64
		for i := range 5 {
			at = append(at, put(t, client, fmt.Sprint("/a/", i), fmt.Sprint(9-i)))
		}
		put(t, client, "/b", "")
		at = append(at, put(t, client, "/a/0", "new"))
		if _, err := client.Delete(soon(t), "/a/1"); err != nil {
			t.Fatal(err)
		}
		prefix := clientv3.WithPrefix()
		for name, test := range map[string]struct {
			key   string
			opts  []clientv3.OpOption
			want  string // the keys' ends
			count int64
			more  bool
		}{
			"all":         {"/a/", []clientv3.OpOption{prefix}, "0234", 4, false},
			"one":         {"/a/2", nil, "2", 1, false},
			"deleted":     {"/a/1", nil, "", 0, false},
			"past":        {"/a/", []clientv3.OpOption{prefix, clientv3.WithRev(at[1])}, "01", 2, false},
			"page":        {"/a/", []clientv3.OpOption{prefix, clientv3.WithLimit(2)}, "02", 4, true},
			"next page":   {"/a/2\x00", []clientv3.OpOption{clientv3.WithRange("/a0"), clientv3.WithLimit(2)}, "34", 2, false},
			"from key":    {"/a/3", []clientv3.OpOption{clientv3.WithFromKey()}, "34b", 3, false},
			"count":       {"/a/", []clientv3.OpOption{prefix, clientv3.WithCountOnly()}, "", 4, false},
			"newer":       {"/a/", []clientv3.OpOption{prefix, clientv3.WithMinModRev(at[4])}, "04", 4, false},
			"older":       {"/a/", []clientv3.OpOption{prefix, clientv3.WithMaxModRev(at[3])}, "23", 4, false},
			"created":     {"/a/", []clientv3.OpOption{prefix, clientv3.WithMinCreateRev(at[2]), clientv3.WithMaxCreateRev(at[3])}, "23", 4, false},
			"by value":    {"/a/", []clientv3.OpOption{prefix, clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)}, "4320", 4, false},
			"last create": {"/a/", clientv3.WithLastCreate(), "4", 4, true},
		} {
			got, keys := get(t, client, test.key, test.opts...), ""
			for _, kv := range got.Kvs {
				keys += string(kv.Key[len(kv.Key)-1])
			}
			if keys != test.want || got.Count != test.count || got.More != test.more {
				t.Errorf("%s: keys %q of %d, more: %v; want %q of %d, %v", name, keys, got.Count, got.More, test.want, test.count, test.more)
			}
		}
		if kv := get(t, client, "/a/0", clientv3.WithKeysOnly()).Kvs[0]; kv.Value != nil || kv.CreateRevision != at[0] || kv.ModRevision != at[5] || kv.Version != 2 {
			t.Errorf("keys only: %v", kv)
		}
		if _, err := client.Get(soon(t), "/a/0", clientv3.WithRev(2*at[5])); !errors.Is(err, rpctypes.ErrFutureRev) {
			t.Errorf("in the future: %v", err)
		}
	})
}

// TestTxn: comparisons, what is written at one revision, and what is refused.
func TestTxn(t *testing.T) {
	_, client := serve(t, newStore(t, fdbshim.Config{}), fdbshim.Options{})
	put(t, client, "/a", "x")
	at := put(t, client, "/a", "y")
	for name, test := range map[string]struct {
		cmp  clientv3.Cmp
		want bool
	}{
		"version":        {clientv3.Compare(clientv3.Version("/a"), "=", 2), true},
		"mod":            {clientv3.Compare(clientv3.ModRevision("/a"), "<", at), false},
		"create":         {clientv3.Compare(clientv3.CreateRevision("/a"), "<", at), true},
		"value":          {clientv3.Compare(clientv3.Value("/a"), "!=", "y"), false},
		"lease":          {clientv3.Compare(clientv3.LeaseValue("/a"), "=", 0), true},
		"absent":         {clientv3.Compare(clientv3.ModRevision("/b"), "=", 0), true},
		"absent's value": {clientv3.Compare(clientv3.Value("/b"), "!=", "y"), false},
	} {
		resp, err := client.Txn(soon(t)).If(test.cmp).Else(clientv3.OpGet("/a")).Commit()
		if err != nil || resp.Succeeded != test.want {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
		if !test.want && string(resp.Responses[0].GetResponseRange().Kvs[0].Value) != "y" {
			t.Errorf("%s: %v", name, resp)
		}
	}

	resp, err := client.Txn(soon(t)).Then(clientv3.OpPut("/b", ""), clientv3.OpDelete("/a"), clientv3.OpGet("/", clientv3.WithPrefix())).Commit()
	if err != nil || len(resp.Responses[2].GetResponseRange().Kvs) != 1 {
		t.Fatalf("%v, %v", resp, err)
	}
	w := watch(t, client, "/", clientv3.WithPrefix(), clientv3.WithRev(at+1))
	if got := w.next(); len(got.Events) != 2 || got.Events[0].Kv.ModRevision != resp.Header.Revision || got.Events[1].Kv.ModRevision != resp.Header.Revision {
		t.Errorf("got %v, want both changes at %d", got.Events, resp.Header.Revision)
	}

	before := put(t, client, "/b", "")
	nested := clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("/c", "")}, nil)
	for why, op := range map[string]clientv3.Op{
		"not implemented": nested, "lease not found": clientv3.OpPut("/c", "", clientv3.WithLease(7)), "key is not provided": clientv3.OpPut("", ""),
	} {
		_, err := client.Txn(soon(t)).Then(clientv3.OpPut("/b", "no"), op).Commit()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if kv := get(t, client, "/b").Kvs[0]; kv.ModRevision != before {
		t.Errorf("a transaction that was refused wrote %v", kv)
	}
}

// TestTwoProcesses: of those that write at once through two processes each wins once
// at a revision of its own.
func TestTwoProcesses(t *testing.T) {
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		store := newStore(t, cfg)
		_, one := serve(t, store, fdbshim.Options{})
		_, other := serve(t, store, fdbshim.Options{})
		const each = 50
		var mu sync.Mutex
		won := map[int64]bool{}
		var writers sync.WaitGroup
		for _, client := range []*clientv3.Client{one, other, one, other} {
			writers.Go(func() {
				for range each {
					for {
						version := int64(0)
						if kvs := get(t, client, "/n").Kvs; len(kvs) > 0 {
							version = kvs[0].ModRevision
						}
						resp, err := client.Txn(t.Context()).If(clientv3.Compare(clientv3.ModRevision("/n"), "=", version)).Then(clientv3.OpPut("/n", "")).Commit()
						if err != nil {
							t.Error(err)
							return
						}
						if resp.Succeeded {
							mu.Lock()
							won[resp.Header.Revision] = true
							mu.Unlock()
							break
						}
					}
				}
			})
		}
		writers.Wait()
		if kv := get(t, one, "/n").Kvs[0]; len(won) != 4*each || kv.Version != 4*each {
			t.Errorf("%d revisions, and version %d; want %d", len(won), kv.Version, 4*each)
		}
	})
}

// TestCompact: what was compacted cannot be read or watched, what is left can.
func TestCompact(t *testing.T) {
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		_, client := serve(t, newStore(t, cfg), fdbshim.Options{})
		idle := watch(t, client, "/a")
		old := put(t, client, "/a", "1")
		put(t, client, "/gone", "")
		if _, err := client.Delete(soon(t), "/gone"); err != nil {
			t.Fatal(err)
		}
		at := put(t, client, "/a", "2")
		idle.revisions(2)
		read := get(t, client, "/a").Header.Revision // may be above the last commit
		if _, err := client.Compact(soon(t), read); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Compact(soon(t), read); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("again: %v", err)
		}
		if _, err := client.Compact(soon(t), read<<1); !errors.Is(err, rpctypes.ErrFutureRev) {
			t.Errorf("in the future: %v", err)
		}
		if _, err := client.Get(soon(t), "/a", clientv3.WithRev(old)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("an old read: %v", err)
		}
		if got := get(t, client, "/", clientv3.WithPrefix(), clientv3.WithRev(read)); len(got.Kvs) != 1 || got.Kvs[0].ModRevision != at {
			t.Errorf("%v", got.Kvs)
		}
		if resp := watch(t, client, "/a", clientv3.WithRev(old)).next(); !errors.Is(resp.Err(), rpctypes.ErrCompacted) || resp.CompactRevision != read {
			t.Errorf("an old watch: %+v", resp)
		}
		if next := put(t, client, "/a", "3"); idle.revisions(1)[0] != next {
			t.Error("the watch that was up to date has lost an event")
		}
	})
}
