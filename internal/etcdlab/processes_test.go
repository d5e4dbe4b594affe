//go:build linux

package etcdlab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

// processes is [start] for [Processes].
func processes(t *testing.T, cfg Config) *Processes {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	return RunProcesses(t, cfg)
}

func waitLeader(t *testing.T, c *Processes, not ...int) int {
	t.Helper()
	leader, err := c.WaitLeader(soon(t), not...)
	require.NoError(t, err)
	return leader
}

// reading is a read that is under way.
func reading(t *testing.T, client *clientv3.Client, options ...clientv3.OpOption) <-chan error {
	done := make(chan error, 1)
	ctx := soon(t)
	go func() {
		_, err := client.Get(ctx, "k", options...)
		done <- err
	}()
	return done
}

func TestDoorsAreDisturbedApart(t *testing.T) {
	c := processes(t, Config{})
	require.NotEqual(t, os.Getpid(), c.running[0].cmd.Process.Pid)
	client := Connect(t, c, ClientConfig{})
	put(t, client, "k", "v")
	door, err := c.Door(0)
	require.NoError(t, err)
	second, err := newClient(t.Context(), []string{door.Addr()}, ClientConfig{})
	require.NoError(t, err)
	defer second.Close()
	require.Equal(t, "v", get(t, second, "k"))

	door.Cut()
	refused := reading(t, second)
	_, err = door.Await(soon(t), func(s WireStats) bool { return s.Refused >= 2 })
	require.NoError(t, err)
	put(t, client, "k", "v2")
	c.Proxy(0).Cut()
	require.Error(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := client.Get(ctx, "k")
		return err
	}())
	door.Heal()
	<-refused
	require.Equal(t, "v2", get(t, second, "k"))

	// Past all doors.
	direct, err := newClient(t.Context(), []string{c.Direct(0)}, ClientConfig{})
	require.NoError(t, err)
	defer direct.Close()
	require.Equal(t, "v2", get(t, direct, "k"))
	// What etcd tells its clients about itself is its first door.
	require.NoError(t, direct.Sync(soon(t)))
	require.Equal(t, c.Endpoints(), direct.Endpoints())
}

func TestFrozenMemberAnswersAfterThaw(t *testing.T) {
	c := processes(t, Config{Members: 3})
	leader := waitLeader(t, c)
	frozen := Connect(t, c, ClientConfig{Members: []int{leader}})
	rest := Connect(t, c, ClientConfig{Members: []int{(leader + 1) % 3, (leader + 2) % 3}})
	put(t, frozen, "k", "1")

	for range 2 {
		require.NoError(t, c.Freeze(leader))
		states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.running[leader].cmd.Process.Pid))
		require.NoError(t, err)
		require.NotEmpty(t, states)
		for _, file := range states {
			state, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(state), ") T ")
		}
	}
	before := c.Proxy(leader).Stats().UpBytes
	read := reading(t, frozen, clientv3.WithSerializable())
	_, err := c.Proxy(leader).Await(soon(t), func(s WireStats) bool { return s.UpBytes > before })
	require.NoError(t, err, "the kernel takes the question")
	now := waitLeader(t, c, leader)
	put(t, rest, "k", "2")
	require.Empty(t, read)

	require.NoError(t, c.Thaw(leader))
	require.NoError(t, <-read)
	require.NoError(t, c.Await(soon(t), func(leaders []int) bool { return leaders[leader] == now }))
	require.Equal(t, "2", get(t, frozen, "k"))

	// A freeze after a thaw counts, and a kill reaches a frozen member.
	require.NoError(t, c.Freeze(now))
	waitLeader(t, c, now)
	require.NoError(t, c.Kill(now))
	require.ErrorIs(t, c.Freeze(now), os.ErrProcessDone)
	require.ErrorIs(t, c.Thaw(now), os.ErrProcessDone)
}

func TestMembersRestartWithTheirData(t *testing.T) {
	c := processes(t, Config{Members: 3})
	client := Connect(t, c, ClientConfig{})
	revision := put(t, client, "k", "1")
	id, endpoints := c.ClusterID(0), c.Endpoints()

	for _, end := range []func(...int) error{
		c.Kill,
		func(members ...int) error { return c.Stop(soon(t), members...) },
	} {
		leader := waitLeader(t, c)
		require.NoError(t, end(leader))
		require.Zero(t, c.MemberID(leader))
		waitLeader(t, c, leader)
		put(t, client, "k", "while it was down")
		revision++
		require.NoError(t, c.Start(soon(t), leader))
		one := Connect(t, c, ClientConfig{Members: []int{leader}})
		require.Equal(t, "while it was down", get(t, one, "k"))
		require.ErrorContains(t, c.Start(soon(t), leader), "runs already")
	}

	require.NoError(t, c.Kill(c.all()...))
	require.NoError(t, c.Kill(c.all()...), "of none")
	require.Equal(t, -1, c.Leader())
	// One alone is no quorum.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := c.Start(ctx, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "member 0 is not ready")
	_, err = c.WaitLeader(ctx)
	require.ErrorContains(t, err, "leaders [-1 -1 -1]")
	require.NoError(t, c.Start(soon(t), 1, 2))
	resp, err := client.Get(soon(t), "k")
	require.NoError(t, err)
	require.Equal(t, revision, resp.Header.Revision)
	require.Equal(t, id, c.ClusterID(0))
	require.Equal(t, endpoints, c.Endpoints())
}

func TestProcessesRestartOnTheSameDir(t *testing.T) {
	dir := t.TempDir()
	var revision int64
	t.Run("first", func(t *testing.T) {
		revision = put(t, Connect(t, processes(t, Config{Dir: dir}), ClientConfig{}), "k", "v")
	})
	resp, err := Connect(t, processes(t, Config{Dir: dir}), ClientConfig{}).Get(soon(t), "k")
	require.NoError(t, err)
	require.Equal(t, revision, resp.Header.Revision)
}
