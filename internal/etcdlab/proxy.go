package etcdlab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// ProxyStats counts what passed a [Proxy]. Up is from the client to the target.
type ProxyStats struct {
	// Accepted counts connections taken, Open those that are open now, and Refused
	// those that came while the proxy was cut.
	Accepted, Open, Refused int64
	// UpBytes and DownBytes were delivered. UpWaiting and DownWaiting were read and are
	// not delivered yet: held, delayed, or on their way.
	UpBytes, DownBytes, UpWaiting, DownWaiting int64
}

// Proxy forwards TCP connections and disturbs them on demand. Its methods may be
// called from any goroutine.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup // the accept loop and the links

	mu      sync.Mutex
	dial    func(context.Context) (net.Conn, error)
	closed  bool
	cut     bool
	held    bool
	delay   time.Duration
	setting bell // held or delay changed
	links   map[*link]struct{}
	stats   ProxyStats
	moved   bell // stats changed
}

// NewProxy listens on loopback and forwards to target: "host:port",
// "http://host:port" or "unix:///path". Nothing is dialed before a client comes; a
// target that cannot be reached closes the client's connection.
func NewProxy(target string) (*Proxy, error) {
	dial, err := dialer(target)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("etcdlab: proxy: %w", err)
	}
	return newProxy(listener, dial), nil
}

func newProxy(listener net.Listener, dial func(context.Context) (net.Conn, error)) *Proxy {
	p := &Proxy{listener: listener, dial: dial, links: map[*link]struct{}{}}
	p.wg.Go(p.accept)
	return p
}

func dialer(target string) (func(context.Context) (net.Conn, error), error) {
	network, address := "tcp", target
	if strings.Contains(target, ":/") {
		u, err := url.Parse(target)
		if err != nil {
			return nil, fmt.Errorf("etcdlab: proxy target: %w", err)
		}
		switch address = u.Host; u.Scheme {
		case "http", "https":
		case "unix", "unixs":
			network, address = "unix", u.Host+u.Path
		default:
			return nil, fmt.Errorf("etcdlab: proxy target %q; use host:port, http://host:port or unix:///path", target)
		}
	}
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}, nil
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Retarget sends the connections that come from now on to target, which is written
// as for [NewProxy]; open ones stay. With Cut before and Heal after, clients keep
// their endpoint while a cluster is replaced by another.
func (p *Proxy) Retarget(target string) error {
	dial, err := dialer(target)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dial = dial
	return nil
}

// Cut kills the open connections with a reset, with all that they still carried,
// and refuses new ones until Heal: those are accepted and reset at once, so that
// nobody can take the port meanwhile. When it returns, no connection is open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.cut = true
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.kill()
	}
	for _, l := range links {
		<-l.done
	}
}

// Hold stalls both directions of all connections, new ones included, without
// closing any: even an end or a reset waits. When it returns, nothing more is
// delivered until Release or Heal.
func (p *Proxy) Hold() {
	p.mu.Lock()
	p.held = true
	p.setting.ringLocked()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.up.settle()
		l.down.settle()
	}
}

// Release ends a Hold; what was held is delivered in order.
func (p *Proxy) Release() { p.set(func() { p.held = false }) }

// Delay makes each byte arrive at least d after it was read, in either direction,
// in order; a round trip takes 2d longer. It is a latency, not a rate: bytes wait
// side by side. It also counts for what waits already; 0 ends it.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// Heal ends Cut, Hold and Delay.
func (p *Proxy) Heal() { p.set(func() { p.cut, p.held, p.delay = false, false, 0 }) }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.setting.ringLocked()
}

// Stats returns the counts, all of one moment.
func (p *Proxy) Stats() ProxyStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Await waits until ok holds for the stats and returns them. The error is the
// cause of ctx's end, or [net.ErrClosed] when Close came first.
func (p *Proxy) Await(ctx context.Context, ok func(ProxyStats) bool) (ProxyStats, error) {
	var s ProxyStats
	err := await(ctx, &p.mu, &p.moved, func() (bool, error) {
		s = p.stats
		if ok(s) {
			return true, nil
		}
		if p.closed {
			return false, net.ErrClosed
		}
		return false, nil
	})
	return s, err
}

// Close cuts all connections, stops listening and returns when all goroutines of
// the proxy have ended. It may be called again.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.moved.ringLocked()
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of file descriptors, or the client has gone: try again, but do not spin
			continue
		}
		p.admit(conn)
	}
}

func (p *Proxy) admit(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.moved.ringLocked()
	if p.cut || p.closed {
		p.stats.Refused++
		reset(conn)
		return
	}
	p.stats.Accepted++
	p.stats.Open++
	l := newLink(p, conn)
	p.links[l] = struct{}{}
	dial := p.dial
	p.wg.Go(func() { l.run(dial) })
}

// forget takes a link off the books when it has ended.
func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	p.stats.Open--
	p.stats.UpWaiting -= l.up.waiting
	p.stats.DownWaiting -= l.down.waiting
	p.moved.ringLocked()
}
