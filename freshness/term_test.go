package freshness

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestElections: in a healthy cluster no election and no member that lags, restores
// itself from the leader's snapshot or reads at the moment of an election looks like a
// restore, although terms that are read go down.
func TestElections(t *testing.T) {
	cluster := startEtcd(t, etcdlab.Config{Members: 3, SnapshotCount: 5, Tune: func(_ int, cfg *embed.Config) {
		cfg.SnapshotCatchUpEntries = 1
	}})
	var sentinels []*Sentinel
	for i := range 3 {
		sentinels = append(sentinels, NewSentinel(connect(t, cluster, etcdlab.ClientConfig{Members: []int{i}}), testKey))
	}
	member, newest, lower := 0, uint64(0), 0
	floors := newFloors(t, sourceFunc(func(ctx context.Context) (Reading, error) {
		reading, err := sentinels[member].Read(ctx)
		reading.Witness = nil // the term alone
		if reading.RaftTerm < newest {
			lower++
		}
		newest = max(newest, reading.RaftTerm)
		return reading, err
	}), Config{})
	read := func() {
		t.Helper()
		for member = range 3 {
			_, err := floors.Next(soon(t))
			if rewound, ok := errors.AsType[*RewoundError](err); ok {
				t.Fatalf("member %d: %v", member, rewound)
			}
		}
	}

	for range 3 {
		read()
		leader, err := cluster.WaitLeader(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		// The leader is cut off, another is elected and goes on without it, so that it
		// can only be brought back by a snapshot.
		cluster.CutPeer(leader)
		elected, err := cluster.WaitLeader(soon(t), leader)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			if err := sentinels[elected].Append(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
		cluster.MendPeer(leader)
		// It answers when it has caught up, and still tells the term of before.
		for member = leader; ; {
			_, err := floors.Next(soon(t))
			if rewound, ok := errors.AsType[*RewoundError](err); ok {
				t.Fatalf("the member that comes back: %v", rewound)
			}
			if err == nil {
				break
			}
		}
		read()
	}
	if lower == 0 {
		t.Error("no term that was read went down: this test has lost its meaning")
	}
	t.Logf("terms below the newest: %d; the newest: %d", lower, newest)
}
