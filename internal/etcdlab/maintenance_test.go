//go:build linux

package etcdlab

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestMoveLeader(t *testing.T) {
	c := processes(t, Config{Members: 3})
	for range 2 {
		to := (waitLeader(t, c) + 1) % 3
		require.NoError(t, c.MoveLeader(soon(t), to))
		require.Equal(t, to, c.Leader())
		require.NoError(t, c.MoveLeader(soon(t), to), "it is already there")
	}
}

func TestDefragment(t *testing.T) {
	c := processes(t, Config{})
	client := Connect(t, c, ClientConfig{})
	size := func() int64 {
		status, err := client.Status(soon(t), client.Endpoints()[0])
		require.NoError(t, err)
		return status.DbSize
	}
	last, err := PutMany(soon(t), client, "p/", 20*MaxTxnOps, 0)
	require.NoError(t, err)
	_, err = client.Delete(soon(t), "p/", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = client.Compact(soon(t), last+1, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	before := size()
	require.NoError(t, c.Defragment(soon(t), 0))
	require.Less(t, size(), before)
}

func TestRestore(t *testing.T) {
	c := processes(t, Config{Members: 3})
	client := Connect(t, c, ClientConfig{})
	at := put(t, client, "k", "old")
	file := filepath.Join(t.TempDir(), "snapshot")
	one := Connect(t, c, ClientConfig{Members: []int{1}})
	require.Equal(t, "old", get(t, one, "k")) // so member 1 has applied it
	require.NoError(t, c.Save(soon(t), 1, file))
	saved, err := SnapshotRevision(file)
	require.NoError(t, err)
	require.Equal(t, uint64(at), saved)
	put(t, client, "k", "new")
	cluster, member, endpoints := c.ClusterID(0), c.MemberID(0), c.Endpoints()

	const bump = 1000
	for _, cfg := range []RestoreConfig{{RevisionBump: bump}, {Token: "another"}} {
		require.NoError(t, c.Restore(soon(t), file, cfg))
		require.Equal(t, endpoints, c.Endpoints())
		for i := range 3 { // each member has it
			resp, err := Connect(t, c, ClientConfig{Members: []int{i}}).Get(soon(t), "k")
			require.NoError(t, err)
			require.Equal(t, "old", string(resp.Kvs[0].Value))
			require.Equal(t, at+int64(cfg.RevisionBump), resp.Header.Revision)
			require.Equal(t, cfg.Token == "", resp.Header.ClusterId == cluster)
			require.Equal(t, resp.Header.ClusterId, c.ClusterID(i))
		}
		require.Equal(t, cfg.Token == "", c.MemberID(0) == member)
		_, err := client.Get(soon(t), "k", clientv3.WithRev(at))
		if cfg.RevisionBump > 0 {
			require.ErrorIs(t, err, rpctypes.ErrCompacted)
		} else {
			require.NoError(t, err)
		}
		put(t, client, "k", "goes on")
	}

	require.ErrorContains(t, c.Restore(soon(t), filepath.Join(t.TempDir(), "none"), RestoreConfig{}), "none")
	c.restoring = true
	require.ErrorContains(t, c.Start(soon(t), 0), "a restore is under way")
	require.ErrorContains(t, c.Restore(soon(t), file, RestoreConfig{}), "another one is under way")
}
