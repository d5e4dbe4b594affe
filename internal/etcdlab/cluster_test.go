package etcdlab

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
)

// start checks, after the cluster and the clients of the test have closed, that no
// goroutine is left.
func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	return Run(t, cfg)
}

// soon is a guard against a hang, not an expectation.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, c *clientv3.Client, key, value string) int64 {
	t.Helper()
	resp, err := c.Put(soon(t), key, value)
	require.NoError(t, err)
	return resp.Header.Revision
}

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	resp, err := c.Get(soon(t), key)
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func TestStartKinds(t *testing.T) {
	for name, cfg := range map[string]Config{
		"tcp":        {},
		"unix":       {Unix: true},
		"proxy":      {Proxy: true},
		"unix proxy": {Unix: true, Proxy: true},
		"fsync":      {Fsync: true, Tick: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, cfg)
			client := Connect(t, c, ClientConfig{})
			put(t, client, "k", "v")
			require.Equal(t, "v", get(t, client, "k"))
			require.Equal(t, 0, c.Leader())
			if cfg.Proxy {
				require.EqualValues(t, 1, c.Proxy(0).Stats().Open)
			}
			// What etcd tells its clients about itself leads back to it.
			require.NoError(t, client.Sync(soon(t)))
			require.Equal(t, c.Endpoints(), client.Endpoints())
			require.Equal(t, "v", get(t, client, "k"))
		})
	}
}

func TestCloseEndsOpenCallsAndRemovesItsFolder(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	c, err := Start(Config{})
	require.NoError(t, err)
	dir := filepath.Dir(c.Dir(0))
	require.DirExists(t, dir)
	counters := &Counters{}
	client, err := c.Client(t.Context(), ClientConfig{Counters: counters})
	require.NoError(t, err)
	watch := client.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
	require.True(t, (<-watch).Created)

	// etcd alone would wait for the watch's client, which waits for etcd.
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.NoDirExists(t, dir)
	require.NoError(t, client.Close())
	goleak.VerifyNone(t, leaks)
}

func TestRestartOnTheSameDir(t *testing.T) {
	for _, members := range []int{1, 3} {
		leaks := goleak.IgnoreCurrent()
		cfg := Config{Members: members, Dir: t.TempDir()}
		c, err := Start(cfg)
		require.NoError(t, err)
		client, err := c.Client(t.Context(), ClientConfig{})
		require.NoError(t, err)
		p, err := NewProxy(c.Endpoints()[0])
		require.NoError(t, err)
		revision := put(t, client, "k", "v")
		require.NoError(t, client.Close())
		id := c.Member(0).Server.Cluster().ID()
		require.NoError(t, c.Close())

		c, err = Start(cfg)
		require.NoError(t, err)
		require.Equal(t, id, c.Member(0).Server.Cluster().ID())
		// A proxy of one's own keeps the endpoint over the restart.
		require.NoError(t, p.Retarget(c.Endpoints()[0]))
		client, err = clientv3.New(clientv3.Config{Endpoints: []string{p.Addr()}})
		require.NoError(t, err)
		resp, err := client.Get(soon(t), "k")
		require.NoError(t, err)
		require.Equal(t, revision, resp.Header.Revision)
		require.Equal(t, "v", string(resp.Kvs[0].Value))
		require.NoError(t, client.Close())
		p.Close()
		require.NoError(t, c.Close())

		cfg.Members = 4 - members
		_, err = Start(cfg)
		require.ErrorContains(t, err, "Config.Members")
		goleak.VerifyNone(t, leaks)
	}
}

func TestClusterIDsDiffer(t *testing.T) {
	a, b := Run(t, Config{}), Run(t, Config{})
	require.NotEqual(t, a.Member(0).Server.Cluster().ID(), b.Member(0).Server.Cluster().ID())
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"Config.Members": {Members: 2},
		"Config.Tick":    {Tick: time.Microsecond},
	} {
		_, err := Start(cfg)
		require.ErrorContains(t, err, field)
	}
}

// TestTakenPort starts beside somebody who takes a port of the last member each time.
func TestTakenPort(t *testing.T) {
	for _, taken := range []int{1, startAttempts} {
		leaks := goleak.IgnoreCurrent()
		tries := 0
		cfg := Config{Members: 3, Dir: t.TempDir(), Tune: func(i int, ec *embed.Config) {
			if i != 2 {
				return
			}
			if tries++; tries > taken {
				return
			}
			l, err := net.Listen("tcp", ec.ListenClientUrls[0].Host)
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
		}}
		c, err := Start(cfg)
		if taken < startAttempts {
			require.NoError(t, err)
			require.Equal(t, 2, tries)
			require.NoError(t, c.Close())
		} else {
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			require.Equal(t, startAttempts, tries)
			left, err := os.ReadDir(cfg.Dir)
			require.NoError(t, err)
			require.Empty(t, left, "a failed start leaves nothing behind")
		}
		goleak.VerifyNone(t, leaks)
	}
}

func TestSettingsReachEtcd(t *testing.T) {
	c := start(t, Config{SnapshotCount: 7, MaxRequestBytes: 4 << 20, MaxTxnOps: 500, Tick: 25 * time.Millisecond,
		Tune: func(i int, ec *embed.Config) {
			ec.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
		}})
	got := c.Member(0).Server.Cfg
	require.EqualValues(t, 7, got.SnapshotCount)
	require.EqualValues(t, 4<<20, got.MaxRequestBytes)
	require.EqualValues(t, 500, got.MaxTxnOps)
	require.EqualValues(t, 25, got.TickMs)
	require.True(t, got.UnsafeNoFsync)
	require.Zero(t, got.AutoCompactionRetention)
	require.Equal(t, []string{"http://127.0.0.1:1"}, c.Endpoints())
}
