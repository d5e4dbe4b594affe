package etcdlab

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestHoldIsSeenByAClientAsOrder(t *testing.T) {
	c := start(t, Config{Proxy: true})
	p := c.Proxy(0)
	client := Connect(t, c, ClientConfig{})
	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Member(0).Clients[0].Addr().String()}})
	require.NoError(t, err)
	t.Cleanup(func() { direct.Close() })
	watch := client.Watch(t.Context(), "watched", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)
	put(t, client, "k", "before")

	p.Hold()
	before := p.Stats()
	var written sync.WaitGroup
	written.Go(func() {
		if _, err := client.Put(soon(t), "k", "held"); err != nil {
			t.Error(err)
		}
	})
	_, err = p.Await(soon(t), func(s ProxyStats) bool { return s.UpWaiting > before.UpWaiting })
	require.NoError(t, err)
	put(t, direct, "watched", "w")
	_, err = p.Await(soon(t), func(s ProxyStats) bool { return s.DownWaiting > before.DownWaiting })
	require.NoError(t, err)
	require.Equal(t, "before", get(t, direct, "k"), "the write waits in the proxy")
	require.Empty(t, watch, "and so does the event")
	require.Equal(t, before.UpBytes, p.Stats().UpBytes)
	require.Equal(t, before.DownBytes, p.Stats().DownBytes)

	p.Release()
	written.Wait()
	require.Equal(t, "held", get(t, direct, "k"))
	require.Equal(t, "w", string((<-watch).Events[0].Kv.Value))
	require.EqualValues(t, 1, p.Stats().Accepted, "the connection outlived the hold")
}

func TestCutIsSeenByAClientAsErrorsUntilHealed(t *testing.T) {
	c := start(t, Config{Proxy: true})
	p := c.Proxy(0)
	client := Connect(t, c, ClientConfig{})
	put(t, client, "k", "v")

	p.Cut()
	require.Zero(t, p.Stats().Open)
	ctx, cancel := context.WithCancel(soon(t))
	var read sync.WaitGroup
	read.Go(func() {
		if _, err := client.Get(ctx, "k"); err == nil {
			t.Error("a read came through the cut")
		}
	})
	_, err := p.Await(soon(t), func(s ProxyStats) bool { return s.Refused >= 2 })
	require.NoError(t, err)
	cancel()
	read.Wait()

	p.Heal()
	require.Equal(t, "v", get(t, client, "k"))
	require.EqualValues(t, 2, p.Stats().Accepted)
}

func TestDelayIsSeenByAClientAsRoundTrips(t *testing.T) {
	c := start(t, Config{Proxy: true})
	client := Connect(t, c, ClientConfig{})
	put(t, client, "k", "v")
	const d = 10 * time.Millisecond
	c.Proxy(0).Delay(d)
	for range 5 {
		begin := time.Now()
		require.Equal(t, "v", get(t, client, "k"))
		require.GreaterOrEqual(t, time.Since(begin), 2*d)
	}
}

func TestThreeMembersPartition(t *testing.T) {
	c := start(t, Config{Members: 3, Tick: 20 * time.Millisecond})
	require.Len(t, c.Endpoints(), 3)
	old, err := c.WaitLeader(soon(t))
	require.NoError(t, err)
	follower := (old + 1) % 3
	all := Connect(t, c, ClientConfig{Members: []int{old, (old + 2) % 3}})
	alone := Connect(t, c, ClientConfig{Members: []int{follower}})
	put(t, all, "k", "1")
	require.Equal(t, "1", get(t, alone, "k"))

	c.CutPeer(follower)
	put(t, all, "k", "2")
	cannotRead := func(client *clientv3.Client) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := client.Get(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	cannotRead(alone)
	stale, err := alone.Get(soon(t), "k", clientv3.WithSerializable())
	require.NoError(t, err)
	require.Equal(t, "1", string(stale.Kvs[0].Value))
	require.Equal(t, "2", get(t, all, "k"))
	c.MendPeer(follower)
	require.Equal(t, "2", get(t, alone, "k"))

	// Cut the leader: the others elect one of theirs.
	old, err = c.WaitLeader(soon(t))
	require.NoError(t, err)
	cutOff := Connect(t, c, ClientConfig{Members: []int{old}})
	rest := Connect(t, c, ClientConfig{Members: []int{(old + 1) % 3, (old + 2) % 3}})
	c.CutPeer(old)
	now, err := c.WaitLeader(soon(t), old)
	require.NoError(t, err)
	require.NotEqual(t, old, now)
	require.Equal(t, now, c.Leader())
	put(t, rest, "k", "3")
	cannotRead(cutOff)
	c.MendPeer(old)
	require.Equal(t, "3", get(t, cutOff, "k"))
}

func TestWaitLeaderEndsWithItsContext(t *testing.T) {
	c := start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.WaitLeader(ctx, 0)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLeaseWithManyKeysEndsAtOneRevision(t *testing.T) {
	c := start(t, Config{})
	counters := &Counters{}
	client := Connect(t, c, ClientConfig{Counters: counters})
	const n = 2*MaxTxnOps + 1
	watch := client.Watch(t.Context(), "p/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)

	before := put(t, client, "other", "")
	lease, revision, err := LeaseMany(soon(t), client, "p/", n, time.Hour)
	require.NoError(t, err)
	require.Equal(t, before+3, revision, "three transactions")
	require.EqualValues(t, 3, counters.Snapshot().Txns)
	ttl, err := client.TimeToLive(soon(t), lease, clientv3.WithAttachedKeys())
	require.NoError(t, err)
	require.Len(t, ttl.Keys, n)
	require.EqualValues(t, 3600, ttl.GrantedTTL)
	revoked, err := RevokeLease(soon(t), client, lease)
	require.NoError(t, err)
	require.Equal(t, revision+1, revoked)

	at := map[int64]int{} // events by revision
	for events := 0; events < 2*n; {
		for _, e := range (<-watch).Events {
			events++
			at[e.Kv.ModRevision]++
			require.Equal(t, e.Kv.ModRevision == revoked, e.Type == clientv3.EventTypeDelete)
			require.True(t, strings.HasPrefix(string(e.Kv.Key), "p/000"))
		}
	}
	require.Equal(t, map[int64]int{before + 1: MaxTxnOps, before + 2: MaxTxnOps, revision: 1, revoked: n}, at)

	_, err = PutMany(soon(t), client, "p/", 0, 0)
	require.ErrorContains(t, err, "n = 0")
	_, err = PutMany(soon(t), client, "p/", 1, lease)
	require.Error(t, err, "the lease is gone")
	_, err = RevokeLease(soon(t), client, lease)
	require.Error(t, err)
}
