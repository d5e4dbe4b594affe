package freshness

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/revision"
)

func TestSentinelKey(t *testing.T) {
	for prefix, want := range map[string]string{
		"/registry": testKey, "/registry/": testKey, "registry": "registry/rvfloor/sentinel", "": "rvfloor/sentinel",
	} {
		if got := SentinelKey(prefix); got != want {
			t.Errorf("SentinelKey(%q) = %q", prefix, got)
		}
	}
}

func TestSentinelWithoutClientOrKey(t *testing.T) {
	for name, sentinel := range map[string]*Sentinel{"client": NewSentinel(nil, testKey), "key": {}} {
		for method, err := range map[string]error{
			"Nudge": sentinel.Nudge(t.Context()), "Append": sentinel.Append(t.Context()),
			"Read": func() error { _, err := sentinel.Read(t.Context()); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", method, err)
			}
		}
	}
}

func TestSentinelRead(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	before := put(t, other, "/registry/a", "1")

	var counters etcdlab.Counters
	sentinel := NewSentinel(connect(t, cluster, etcdlab.ClientConfig{Counters: &counters}), testKey)
	if ok, err := sentinel.Writable(); ok || err != nil {
		t.Errorf("Writable before anything was written: %v, %v", ok, err)
	}

	// The first read creates it, and answers with that write.
	created := mustRead(t, sentinel)
	value, revision := valueOf(t, other, testKey)
	if created.Revision != revision || revision != before+1 || string(created.Witness) != value {
		t.Errorf("created: %+v; the key is %q at %d", created, value, revision)
	}
	chain := mustParse(t, created.Witness)
	if len(chain) != 1 || chain[0].Nonce == 0 || chain[0].Prev != 0 {
		t.Errorf("created with %v", chain)
	}
	if ok, err := sentinel.Writable(); !ok || err != nil {
		t.Errorf("Writable: %v, %v", ok, err)
	}

	// Each later one is one read and nothing else, and sees all that was written.
	start := counters.Snapshot()
	for i := range 10 {
		want := put(t, other, "/registry/a", "2")
		got := mustRead(t, sentinel)
		if got.Revision != want || !bytes.Equal(got.Witness, created.Witness) {
			t.Errorf("read %d: %+v, want revision %d", i, got, want)
		}
		if got.ClusterID == 0 || got.ClusterID != created.ClusterID || got.RaftTerm == 0 || got.RaftTerm < created.RaftTerm {
			t.Errorf("read %d: %+v after %+v", i, got, created)
		}
	}
	sent := counters.Snapshot().Sub(start)
	if sent.Ranges != 10 || sent.Txns != 0 || sent.Puts != 0 {
		t.Errorf("10 reads sent %+v", sent)
	}

	// Another client finds it.
	found := NewSentinel(connect(t, cluster, etcdlab.ClientConfig{}), testKey)
	if got := mustRead(t, found); !bytes.Equal(got.Witness, created.Witness) {
		t.Errorf("found %q", got.Witness)
	}
	if ok, err := found.Writable(); ok || err != nil {
		t.Errorf("Writable of one that only read: %v, %v", ok, err)
	}
}

// TestSentinelCreatedOnce: many that miss it at once create it once.
func TestSentinelCreatedOnce(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	client := connect(t, cluster, etcdlab.ClientConfig{})
	start := mustRead(t, NewSentinel(client, "/registry/another")).Revision

	readings := make([]Reading, 16)
	var readers sync.WaitGroup
	for i := range readings {
		readers.Go(func() {
			var err error
			if readings[i], err = NewSentinel(client, testKey).Read(soon(t)); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	for i, got := range readings {
		if got.Revision != start+1 || !bytes.Equal(got.Witness, readings[0].Witness) || len(got.Witness) == 0 {
			t.Errorf("reader %d: %+v", i, got)
		}
	}
}

// TestSentinelLosesTheCreation: somebody creates it between our read and our
// write, or deletes it again before we look.
func TestSentinelLosesTheCreation(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	rival := NewSentinel(connect(t, cluster, etcdlab.ClientConfig{}), testKey)
	client := connect(t, cluster, etcdlab.ClientConfig{})
	inner := client.KV
	sentinel := NewSentinel(client, testKey)

	client.KV = &interfering{inner, func() { mustRead(t, rival) }}
	got := mustRead(t, sentinel)
	value, revision := valueOf(t, other, testKey)
	if string(got.Witness) != value || got.Revision != revision {
		t.Errorf("got %+v, the rival wrote %q at %d", got, value, revision)
	}

	if _, err := other.Delete(soon(t), testKey); err != nil {
		t.Fatal(err)
	}
	client.KV = &interfering{&forgetting{KV: inner}, func() { mustRead(t, rival) }}
	if got, err := sentinel.Read(soon(t)); err == nil || !strings.Contains(err.Error(), testKey) || got.Revision != 0 {
		t.Errorf("deleted as fast as it is created: %+v, %v", got, err)
	}
}

// TestSentinelIsLinearizable: a member that is cut off from the majority has an
// old revision to offer, and must not.
func TestSentinelIsLinearizable(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{Members: 3})
	leader, err := cluster.WaitLeader(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	cut := (leader + 1) % 3
	floors := newFloors(t, NewSentinel(connect(t, cluster, etcdlab.ClientConfig{Members: []int{cut}}), testKey), Config{})
	before, err := floors.Next(soon(t))
	if err != nil {
		t.Fatal(err)
	}

	cluster.CutPeer(cut)
	majority := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{Members: []int{leader}})
	written := put(t, majority, "/registry/a", "1")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if floor, err := floors.Next(ctx); err == nil {
		t.Errorf("a member without a majority answered %v; %d was acknowledged, %d before the partition", floor, written, before.Revision)
	}

	cluster.MendPeer(cut)
	guard := soon(t)
	after, err := floors.Next(guard)
	for err != nil && guard.Err() == nil {
		after, err = floors.Next(guard) // reads fail until the member has caught up
	}
	if err != nil || after.Revision < written {
		t.Errorf("after the partition: %v, %v; %d was acknowledged", after, err, written)
	}
}

// TestFloorsOverEtcd: with writers all the while, no floor is below a write that
// was acknowledged before the floor was asked for.
func TestFloorsOverEtcd(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	client := connect(t, cluster, etcdlab.ClientConfig{})
	floors := newFloors(t, NewSentinel(client, testKey), Config{})
	var acknowledged revision.Ratchet
	ctx, stop := context.WithCancel(soon(t))
	var writers, readers sync.WaitGroup
	for range 4 {
		writer := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
		writers.Go(func() {
			for ctx.Err() == nil {
				if resp, err := writer.Put(ctx, "/registry/a", "1"); err == nil {
					acknowledged.Raise(uint64(resp.Header.Revision))
					floors.Saw(uint64(resp.Header.Revision))
				}
			}
		})
	}
	for range 32 {
		readers.Go(func() {
			for range 50 {
				least := acknowledged.Load()
				floor, err := floors.Next(ctx)
				if err != nil || floor.Revision < least {
					t.Errorf("floor %v, %v; %d was acknowledged", floor, err, least)
					return
				}
			}
		})
	}
	readers.Wait()
	stop()
	writers.Wait()
	if err := floors.Rewound(); err != nil {
		t.Error(err)
	}
}

// TestSentinelLetsForeignValuesBe: a key that holds something else is read, for
// its revision, and never written.
func TestSentinelLetsForeignValuesBe(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{})
	other := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(connect(t, cluster, etcdlab.ClientConfig{}), testKey)
	for _, test := range []struct {
		value         string
		nudge, append error
	}{
		{"leader=a", ErrNotAChain, ErrNotAChain},
		{"", ErrNotAChain, ErrNotAChain},
		{"rvfloor\x01cut", nil, ErrNotAChain},
		{"rvfloor\x02newer", nil, ErrChainVersion},
	} {
		revision := put(t, other, testKey, test.value)
		got := mustRead(t, sentinel)
		if got.Revision != revision || got.Witness == nil || string(got.Witness) != test.value {
			t.Errorf("%q: read %+v", test.value, got)
		}
		for method, outcome := range map[string]struct{ got, want error }{
			"Append": {sentinel.Append(soon(t)), test.append},
			"Nudge":  {sentinel.Nudge(soon(t)), test.nudge},
		} {
			if !errors.Is(outcome.got, outcome.want) {
				t.Errorf("%q: %s: %v", test.value, method, outcome.got)
			}
			if outcome.got != nil && !strings.Contains(outcome.got.Error(), testKey) {
				t.Errorf("%q: %s does not name the key: %v", test.value, method, outcome.got)
			}
		}
		value, now := valueOf(t, other, testKey)
		if nudged := test.nudge == nil; value != test.value || (now > revision) != nudged {
			t.Errorf("%q at %d became %q at %d", test.value, revision, value, now)
		}
	}
}
