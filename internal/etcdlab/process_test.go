//go:build linux

package etcdlab

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// parentEnv makes this binary a parent of members that is to be killed.
const parentEnv = "RVFLOOR_ETCDLAB_TEST_PARENT"

func TestMain(m *testing.M) {
	MaybeMember()
	if dir, ok := os.LookupEnv(parentEnv); ok {
		parent(dir)
	}
	os.Exit(m.Run())
}

// parent starts members, one of them frozen, tells their process ids, and waits.
func parent(dir string) {
	c, err := StartProcesses(Config{Members: 3, Dir: dir})
	if err == nil {
		err = c.Freeze(0)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, p := range c.running {
		fmt.Println(p.cmd.Process.Pid)
	}
	io.Copy(io.Discard, os.Stdin)
}

func TestMembersDieWithTheirParent(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(soon(t), self)
	cmd.Env = append(os.Environ(), parentEnv+"="+t.TempDir(), "TMPDIR="+t.TempDir())
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()

	lines := bufio.NewScanner(out)
	var members []unix.PollFd // readable when the process has ended
	for range 3 {
		require.True(t, lines.Scan(), "the parent ended")
		var pid int
		_, err := fmt.Sscan(lines.Text(), &pid)
		require.NoError(t, err, lines.Text())
		fd, err := unix.PidfdOpen(pid, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		members = append(members, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	alive, err := unix.Poll(members, 0)
	require.NoError(t, err)
	require.Zero(t, alive, "none has ended")

	require.NoError(t, cmd.Process.Kill())
	for i := range members {
		n, err := poll(members[i:i+1], time.Minute)
		require.NoError(t, err)
		require.Equal(t, 1, n, "member %d lives on", i)
	}
}

func poll(fds []unix.PollFd, timeout time.Duration) (int, error) {
	for {
		n, err := unix.Poll(fds, int(timeout.Milliseconds()))
		if err != unix.EINTR {
			return n, err
		}
	}
}

func TestProcessesTellOfAMemberThatEndedByItself(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	c, err := StartProcesses(Config{})
	require.NoError(t, err)
	require.NoError(t, c.running[0].cmd.Process.Kill())
	require.NoError(t, c.Await(soon(t), func([]int) bool { return c.running[0] == nil }))
	err = c.Close()
	require.ErrorContains(t, err, "member 0 ended by itself: signal: killed")
	require.ErrorContains(t, err, "ready to serve client requests", "its log")
	require.Equal(t, err, c.Close())
	require.ErrorContains(t, c.Start(t.Context(), 0), "closed")
	_, err = c.Door(0)
	require.ErrorContains(t, err, "closed")
	goleak.VerifyNone(t, leaks)
}

func TestProcessesThatDoNotStart(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/m1", nil, 0o600)) // where a folder is to be
	_, err := StartProcesses(Config{Members: 3, Dir: dir})
	require.ErrorContains(t, err, "member 1 is not started")
	require.Equal(t, 1, strings.Count(err.Error(), "its log ends"), err)
	require.Equal(t, 1, strings.Count(err.Error(), "\ncannot access data directory"), err)

	for field, cfg := range map[string]Config{
		"Config.Members": {Members: 2},
		"Config.Unix":    {Unix: true},
		"Proxy":          {Proxy: true},
		"Logger":         {Logger: zap.NewNop()},
	} {
		_, err := StartProcesses(cfg)
		require.ErrorContains(t, err, field)
	}
	mayHaveChildren.Store(false)
	defer mayHaveChildren.Store(true)
	_, err = StartProcesses(Config{})
	require.ErrorContains(t, err, "MaybeMember")
	goleak.VerifyNone(t, leaks)
}
