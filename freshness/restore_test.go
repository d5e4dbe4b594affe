package freshness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestRestoredEtcd puts a backup of etcd's data back, as an operator does. It is
// seen by the revision; and by the chain too, which still shows it when the new
// history has grown past the old one.
func TestRestoredEtcd(t *testing.T) {
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	run := func(use func(cluster *etcdlab.Cluster)) {
		cluster, err := etcdlab.Start(etcdlab.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := cluster.Close(); err != nil {
				t.Error(err)
			}
		}()
		use(cluster)
	}

	// What stays while etcd comes and goes.
	var now *Sentinel
	floors := newFloors(t, sourceFunc(func(ctx context.Context) (Reading, error) { return now.Read(ctx) }), Config{})
	connected := func(cluster *etcdlab.Cluster) *Sentinel {
		return NewSentinel(connect(t, cluster, etcdlab.ClientConfig{}), testKey)
	}

	var seen Link
	var before Floor
	run(func(cluster *etcdlab.Cluster) {
		if err := connected(cluster).Append(soon(t)); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	run(func(cluster *etcdlab.Cluster) {
		now = connected(cluster)
		for range 3 {
			if err := now.Append(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
		chain := mustParse(t, mustRead(t, now).Witness)
		seen = chain[len(chain)-1]
		var err error
		if before, err = floors.Next(soon(t)); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	run(func(cluster *etcdlab.Cluster) {
		now = connected(cluster)
		_, err := floors.Next(soon(t))
		rewound, ok := errors.AsType[*RewoundError](err)
		if !ok || rewound.Seen != before.Revision || rewound.Read >= before.Revision || rewound.Evidence != EvidenceRevision {
			t.Errorf("got %v; %d was seen before the restore", err, before.Revision)
		}

		for mustRead(t, now).Revision <= before.Revision {
			if err := now.Append(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
		if chain := mustParse(t, mustRead(t, now).Witness); chain.Has(seen.Nonce) || !chain.Lost(seen) {
			t.Errorf("%v does not show that %v was lost", chain, seen)
		}
		if _, err := floors.Next(soon(t)); err != error(rewound) {
			t.Errorf("then: %v", err)
		}
	})
}
