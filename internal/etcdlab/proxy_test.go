package etcdlab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// pipeNet is a network inside a synctest bubble: a proxy whose target echoes.
type pipeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (n *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *pipeNet) Close() error {
	n.close.Do(func() { close(n.closed) })
	return nil
}

func (n *pipeNet) Addr() net.Addr { return &net.TCPAddr{} }

func (n *pipeNet) dial() net.Conn {
	client, proxy := net.Pipe()
	n.conns <- proxy
	return client
}

// echoProxy must be closed before the bubble ends, or synctest reports its goroutines.
func echoProxy() (*pipeNet, *Proxy) {
	n := &pipeNet{conns: make(chan net.Conn), closed: make(chan struct{})}
	p := newProxy(n, func(context.Context) (net.Conn, error) {
		target, proxy := net.Pipe()
		go func() {
			defer target.Close()
			io.Copy(target, target)
		}()
		return proxy, nil
	})
	return n, p
}

// echoes collects what comes back on a connection.
func echoes(conn net.Conn) <-chan string {
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		buf := make([]byte, 100)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			lines <- string(buf[:n])
		}
	}()
	return lines
}

func send(t *testing.T, conn net.Conn, line string) {
	t.Helper()
	_, err := conn.Write([]byte(line))
	require.NoError(t, err)
}

func TestDelayIsALatencyAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := echoProxy()
		defer p.Close()
		conn := n.dial()
		back := echoes(conn)

		const d, gap = 50 * time.Millisecond, 10 * time.Millisecond
		p.Delay(d)
		start := time.Now()
		for _, line := range []string{"a", "b", "c"} {
			send(t, conn, line)
			time.Sleep(gap)
		}
		for i, line := range []string{"a", "b", "c"} {
			require.Equal(t, line, <-back)
			// Each waits on its own: were they to queue for the delay, c would need 3d.
			require.Equal(t, 2*d+time.Duration(i)*gap, time.Since(start))
		}

		p.Delay(time.Hour)
		start = time.Now()
		send(t, conn, "waiting")
		synctest.Wait()
		require.EqualValues(t, 7, p.Stats().UpWaiting)
		p.Delay(0)
		require.Equal(t, "waiting", <-back)
		require.Zero(t, time.Since(start), "a shorter delay counts at once")
	})
}

func TestThrottleIsARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := echoProxy()
		defer p.Close()
		conn := n.dial()
		back := echoes(conn)

		const rate, size, lines = 100, 50, 5 // half a second for each line
		line := string(bytes.Repeat([]byte("x"), size))
		p.Throttle(rate)
		start := time.Now()
		for range lines {
			send(t, conn, line)
			synctest.Wait() // so that each is read, and written, on its own
		}
		for i := range lines {
			require.Equal(t, line, <-back)
			require.Equal(t, time.Duration(i)*time.Second/2, time.Since(start))
		}

		p.Throttle(1)
		start = time.Now()
		send(t, conn, line)
		synctest.Wait()
		require.Empty(t, back)
		p.Throttle(0)
		require.Equal(t, line, <-back)
		require.Zero(t, time.Since(start), "a higher rate counts at once")
	})
}

func TestHoldStallsBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := echoProxy()
		defer p.Close()
		conn := n.dial()
		back := echoes(conn)
		send(t, conn, "before")
		require.Equal(t, "before", <-back)

		p.Hold()
		send(t, conn, "one")
		send(t, conn, "two")
		late := n.dial()
		lateBack := echoes(late)
		send(t, late, "late")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, back)
		require.Empty(t, lateBack)
		require.Equal(t, ProxyStats{Accepted: 2, Open: 2, UpBytes: 6, DownBytes: 6, UpWaiting: 10}, p.Stats())

		p.Release()
		synctest.Wait()
		require.Equal(t, "one", <-back)
		require.Equal(t, "two", <-back)
		require.Equal(t, "late", <-lateBack)

		// An answer that is under way is held too.
		p.Delay(time.Minute)
		send(t, conn, "answer")
		time.Sleep(90 * time.Second)
		p.Hold()
		p.Delay(0)
		synctest.Wait()
		require.EqualValues(t, 6, p.Stats().DownWaiting)
		require.Empty(t, back)

		// So is the end of a connection.
		late.Close()
		synctest.Wait()
		require.EqualValues(t, 2, p.Stats().Open)
		p.Heal()
		synctest.Wait()
		require.Equal(t, "answer", <-back)
		require.EqualValues(t, 1, p.Stats().Open)
	})
}

func TestCutKillsAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := echoProxy()
		defer p.Close()
		conn := n.dial()
		back := echoes(conn)
		p.Hold()
		send(t, conn, "lost")

		p.Cut()
		require.Equal(t, ProxyStats{Accepted: 1}, p.Stats(), "no connection, and nothing that waits")
		_, open := <-back
		require.False(t, open)
		refused := echoes(n.dial())
		_, open = <-refused
		require.False(t, open)

		p.Heal()
		again := n.dial()
		back = echoes(again)
		send(t, again, "healed")
		require.Equal(t, "healed", <-back)
		synctest.Wait()
		require.Equal(t, ProxyStats{Accepted: 2, Open: 1, Refused: 1, UpBytes: 6, DownBytes: 6}, p.Stats())
	})
}

func TestProxyAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, p := echoProxy()
		never := func(ProxyStats) bool { return false }
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		_, err := p.Await(ctx, never)
		require.ErrorIs(t, err, cause)

		var wg sync.WaitGroup
		wg.Go(func() {
			s, err := p.Await(t.Context(), func(s ProxyStats) bool { return s.Open == 1 })
			require.NoError(t, err)
			require.EqualValues(t, 1, s.Accepted)
		})
		synctest.Wait()
		n.dial()
		wg.Wait()

		wg.Go(func() {
			_, err := p.Await(t.Context(), never)
			require.ErrorIs(t, err, net.ErrClosed)
		})
		synctest.Wait()
		p.Close()
		wg.Wait()
		p.Close()
		require.Zero(t, p.Stats().Open)
	})
}

func TestProxyEndsInOrderOverTCP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answer := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the kernel's buffers hold
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := io.Copy(io.Discard, conn); err == nil { // until the client's end, which must come through
			conn.Write(answer)
		}
	})
	defer wg.Wait()
	defer listener.Close()

	p, err := NewProxy(listener.Addr().String())
	require.NoError(t, err)
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	send(t, conn, "question")
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, bytes.Equal(answer, got), "%d bytes of %d", len(got), len(answer))
	s, err := p.Await(t.Context(), func(s ProxyStats) bool { return s.Open == 0 })
	require.NoError(t, err)
	require.Equal(t, ProxyStats{Accepted: 1, UpBytes: 8, DownBytes: int64(len(answer))}, s)

	// A target that is gone ends the client's connection.
	listener.Close()
	conn, err = net.Dial("tcp", p.Addr())
	if err == nil { // the reset may be quicker than Dial's return
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	require.Error(t, err)
}

func TestProxyTarget(t *testing.T) {
	_, err := NewProxy("ftp://127.0.0.1:1")
	require.ErrorContains(t, err, "ftp://127.0.0.1:1")
	_, err = NewProxy("http://%zz")
	require.Error(t, err)
}

// TestHoldLeavesNoWriteUnderWay holds a busy connection again and again: what the
// target has got when Hold returns is all that it gets until Release.
func TestHoldLeavesNoWriteUnderWay(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p, err := NewProxy(listener.Addr().String())
	require.NoError(t, err)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	target, err := listener.Accept()
	require.NoError(t, err)

	var mu sync.Mutex
	var got int64
	var more bell
	var wg sync.WaitGroup
	wg.Go(func() {
		for line := make([]byte, 1000); ; {
			if _, err := conn.Write(line); err != nil {
				return
			}
		}
	})
	wg.Go(func() {
		for buf := make([]byte, chunkBytes); ; {
			n, err := target.Read(buf)
			mu.Lock()
			got += int64(n)
			more.ringLocked()
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	for range 200 {
		p.Hold()
		held := p.Stats().UpBytes
		require.NoError(t, await(soon(t), &mu, &more, func() (bool, error) { return got >= held, nil }))
		require.Equal(t, held, p.Stats().UpBytes)
		mu.Lock()
		require.Equal(t, held, got)
		mu.Unlock()
		p.Release()
		_, err := p.Await(soon(t), func(s ProxyStats) bool { return s.UpBytes > held })
		require.NoError(t, err)
	}
	p.Close()
	conn.Close()
	target.Close()
	listener.Close()
	wg.Wait()
}
