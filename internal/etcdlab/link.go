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

// link is one connection through a wire: a client's and the one to the target.
type link struct {
	wire     *Wire
	client   net.Conn
	up, down pump
	ctx      context.Context // ends with kill
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended

	mu     sync.Mutex
	server net.Conn // nil until the target was dialed
	ended  bool
}

func newLink(w *Wire, client net.Conn) *link {
	l := &link{wire: w, client: client, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.up = pump{link: l, bytes: &w.stats.UpBytes, allWaiting: &w.stats.UpWaiting}
	l.down = pump{link: l, bytes: &w.stats.DownBytes, allWaiting: &w.stats.DownWaiting}
	return l
}

func (l *link) run(dial dialFunc) {
	defer close(l.done)
	defer l.wire.forget(l)
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
	bytes, allWaiting *int64 // of the wire's stats, guarded by its lock
	waiting           int64  // this pump's part of allWaiting, guarded by the same
	sentAt            time.Time
	sentBytes         int // the last write, for throttling; guarded by the same

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
	w := u.link.wire
	for {
		u.writing.Lock() // before the look at held, so that settle misses no write
		w.mu.Lock()
		held, wait, changed := w.held, time.Until(u.dueLocked(c)), w.setting.nextLocked()
		w.mu.Unlock()
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

// dueLocked is when c may be written. The wire's lock is held.
func (u *pump) dueLocked(c chunk) time.Time {
	w := u.link.wire
	due := c.read.Add(w.delay)
	if w.rate > 0 {
		pause := time.Duration(u.sentBytes) * time.Second / time.Duration(w.rate)
		if free := u.sentAt.Add(pause); free.After(due) {
			return free
		}
	}
	return due
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
	w := u.link.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	if delivered > 0 {
		u.sentAt, u.sentBytes = time.Now(), int(delivered)
	}
	*u.bytes += delivered
	*u.allWaiting += waiting
	u.waiting += waiting
	w.moved.ringLocked()
}
