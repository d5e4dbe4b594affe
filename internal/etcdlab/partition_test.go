//go:build linux

package etcdlab

import (
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestProcessesPartition(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // is not for members
	c := processes(t, Config{Members: 3})
	leader := waitLeader(t, c)
	follower := (leader + 1) % 3
	all := Connect(t, c, ClientConfig{Members: []int{leader, (leader + 2) % 3}})
	alone := Connect(t, c, ClientConfig{Members: []int{follower}})
	put(t, all, "k", "1")
	require.Equal(t, "1", get(t, alone, "k"))
	sees := func(who, whom int) {
		t.Helper()
		require.NoError(t, c.Await(soon(t), func(leaders []int) bool { return leaders[who] == whom }))
	}
	stale := func() string {
		resp, err := alone.Get(soon(t), "k", clientv3.WithSerializable())
		require.NoError(t, err)
		return string(resp.Kvs[0].Value)
	}

	t.Run("both ways", func(t *testing.T) {
		c.CutPeer(follower)
		sees(follower, -1)
		require.Equal(t, leader, c.Leader())
		put(t, all, "k", "2")
		require.Equal(t, "1", stale())
		read := reading(t, alone)
		c.MendPeer(follower)
		require.NoError(t, <-read)
		sees(follower, leader)
	})

	t.Run("from the leader", func(t *testing.T) {
		there, back := c.Link(leader, follower), c.Link(follower, leader)
		there.Cut()
		sees(follower, -1)
		require.Zero(t, there.Stats().Open)
		require.NotZero(t, back.Stats().Open)
		// The follower is heard: it asks to be elected, which nobody hears of as an answer.
		before := back.Stats()
		_, err := back.Await(soon(t), func(s WireStats) bool { return s.UpBytes+s.DownBytes > before.UpBytes+before.DownBytes })
		require.NoError(t, err)
		there.Heal()
		sees(follower, leader)
	})

	t.Run("to the leader", func(t *testing.T) {
		// The follower hears the leader, and what is written, but its questions go nowhere.
		watch := alone.Watch(soon(t), "k", clientv3.WithCreatedNotify())
		require.True(t, (<-watch).Created)
		// The leader must know how far the follower is, or it sends nothing before it is
		// answered: the second read comes after the follower's answer to the write.
		put(t, all, "k", "before")
		require.Equal(t, "before", get(t, alone, "k"))
		require.Equal(t, "before", get(t, alone, "k"))
		require.Equal(t, "before", string((<-watch).Events[0].Kv.Value))
		c.Link(follower, leader).Cut()
		read := reading(t, alone)
		put(t, all, "k", "3")
		events := (<-watch).Events
		require.Len(t, events, 1, "nothing came")
		require.Equal(t, "3", string(events[0].Kv.Value))
		require.Equal(t, "3", stale())
		require.Empty(t, read)
		require.NoError(t, c.Await(soon(t), func(leaders []int) bool { return leaders[follower] == leader }))
		c.Link(follower, leader).Heal()
		require.NoError(t, <-read)
	})

	t.Run("held", func(t *testing.T) {
		there := c.Link(leader, follower)
		there.Hold()
		sees(follower, -1)
		require.NotZero(t, there.Stats().DownWaiting)
		there.Release()
		sees(follower, leader)
	})
}

func TestNoLinkToItself(t *testing.T) {
	peers, err := openPeerDoors(t.TempDir(), 1)
	require.NoError(t, err)
	defer peers.close()
	require.Panics(t, func() { (&Processes{peers: peers}).Link(0, 0) })
}
