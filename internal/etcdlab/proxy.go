package etcdlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ProxyStats counts what passed a [Proxy]. Up is from the client to the target.
type ProxyStats = WireStats

// Proxy forwards TCP connections and disturbs them on demand, all in the same way.
// Its methods may be called from any goroutine.
type Proxy struct {
	*Wire
	listener net.Listener
	wg       sync.WaitGroup // the accept loop

	mu   sync.Mutex
	dial dialFunc
}

type dialFunc = func(context.Context) (net.Conn, error)

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

func newProxy(listener net.Listener, dial dialFunc) *Proxy {
	p := &Proxy{Wire: newWire(), listener: listener, dial: dial}
	p.wg.Go(func() {
		acceptAll(listener, func(conn net.Conn) {
			p.mu.Lock()
			dial := p.dial
			p.mu.Unlock()
			p.admit(conn, dial)
		})
	})
	return p
}

func dialer(target string) (dialFunc, error) {
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

// Close cuts all connections, stops listening and returns when all goroutines of
// the proxy have ended. It may be called again.
func (p *Proxy) Close() {
	p.listener.Close()
	p.close()
	p.wg.Wait()
}

// acceptAll hands over what comes until the listener is closed.
func acceptAll(listener net.Listener, handle func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond) // out of file descriptors, or the client has gone: try again, but do not spin
			continue
		}
		handle(conn)
	}
}
