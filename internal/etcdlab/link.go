package etcdlab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is one connection through a proxy: a client's and the one to the target.
type link struct {
	proxy    *Proxy
	client   net.Conn
	up, down pump
	ctx      context.Context // ends with kill
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended

	mu     sync.Mutex
	server net.Conn // nil until the target was dialed
	ended  bool
}

func newLink(p *Proxy, client net.Conn) *link {
	l := &link{proxy: p, client: client, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.up = pump{link: l, bytes: &p.stats.UpBytes, allWaiting: &p.stats.UpWaiting}
	l.down = pump{link: l, bytes: &p.stats.DownBytes, allWaiting: &p.stats.DownWaiting}
	return l
}

func (l *link) run(dial func(context.Context) (net.Conn, error)) {
	defer close(l.done)
	defer l.proxy.forget(l)
	server, err := dial(l.ctx)
	if err != nil || !l.attach(server) {
		l.kill()
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.up.run(l.client, server) })
	wg.Go(func() { l.down.run(server, l.client) })
	wg.Wait()
	l.end(func(conn net.Conn) { conn.Close() }) // the kernel still sends what was written
}

// attach reports whether the link still lives, and closes the connection if not.
func (l *link) attach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		reset(server)
		return false
	}
	l.server = server
	return true
}

// kill resets both ends.
func (l *link) kill() { l.end(reset) }

func (l *link) end(closeConn func(net.Conn)) {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	closeConn(l.client)
	if l.server != nil {
		closeConn(l.server)
	}
}

// reset closes a connection at once; what it has not sent yet is lost.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

const (
	chunkBytes = 32 << 10
	// chunksWaiting bounds what one direction holds back in memory; beyond it the
	// sender feels the stall by backpressure, as it would on a real network.
	chunksWaiting = 1024
)

// chunk is what one read gave.
type chunk struct {
	data []byte
	err  error // the end of the stream, after which no chunk follows
	read time.Time
}

// pump carries one direction of a link. Its reads run ahead of its writes, so that
// a delay adds latency and takes no throughput.
type pump struct {
	link              *link
	bytes, allWaiting *int64 // of the proxy's stats, guarded by its lock
	waiting           int64  // this pump's part of allWaiting, guarded by the same

	writing sync.Mutex // held for each write and the decision to make it, for settle
}

func (u *pump) run(src, dst net.Conn) {
	queue := make(chan chunk, chunksWaiting)
	var wg sync.WaitGroup
	wg.Go(func() { u.read(src, queue) })
	u.write(dst, queue)
	wg.Wait()
}

func (u *pump) read(src net.Conn, queue chan<- chunk) {
	buf := make([]byte, chunkBytes)
	for {
		n, err := src.Read(buf)
		u.count(0, int64(n))
		select {
		case queue <- chunk{data: bytes.Clone(buf[:n]), err: err, read: time.Now()}:
		case <-u.link.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// write delivers the chunks, and ends in order after an orderly end. Any other end
// takes the whole link with it.
func (u *pump) write(dst net.Conn, queue <-chan chunk) {
	for {
		var c chunk
		select {
		case c = <-queue:
		case <-u.link.ctx.Done():
			return
		}
		if !u.deliver(dst, c) {
			u.link.kill()
			return
		}
		if c.err != nil {
			return
		}
	}
}

// deliver writes c when it is due and nothing is held, and reports whether the link
// may go on.
func (u *pump) deliver(dst net.Conn, c chunk) bool {
	p := u.link.proxy
	for {
		u.writing.Lock() // before the look at held, so that settle misses no write
		p.mu.Lock()
		held, wait, changed := p.held, time.Until(c.read.Add(p.delay)), p.setting.nextLocked()
		p.mu.Unlock()
		if !held && wait <= 0 {
			ok := u.send(dst, c)
			u.writing.Unlock()
			return ok
		}
		u.writing.Unlock()
		var due <-chan time.Time
		if !held {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-u.link.ctx.Done():
			return false
		}
	}
}

func (u *pump) send(dst net.Conn, c chunk) bool {
	if len(c.data) > 0 {
		if _, err := dst.Write(c.data); err != nil {
			return false
		}
		u.count(int64(len(c.data)), -int64(len(c.data)))
	}
	if errors.Is(c.err, io.EOF) {
		if half, ok := dst.(interface{ CloseWrite() error }); ok {
			return half.CloseWrite() == nil
		}
	}
	return c.err == nil
}

// settle waits for the write that may be under way; a later one sees what was set
// before settle.
func (u *pump) settle() {
	u.writing.Lock()
	defer u.writing.Unlock()
}

func (u *pump) count(delivered, waiting int64) {
	p := u.link.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	*u.bytes += delivered
	*u.allWaiting += waiting
	u.waiting += waiting
	p.moved.ringLocked()
}
