package apiserver

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/monotonic"
)

const (
	// A read that has had no answer for the larger of hedgeAfter and hedgeRoundTrips usual round trips is sent to another
	// member too. Earlier, and busy machines send many reads twice; later, and each read that meets a frozen member waits.
	hedgeAfter      = 100 * time.Millisecond
	hedgeRoundTrips = 4
	// patience is how long each read of a member has to be overtaken before the member is left. Less takes an election or
	// a pause of a busy machine for a frozen member; more, and the reads that wait for a watch there (MaxWait) fail.
	patience = time.Second
	// leftFor is how long a member that was left is not connected to: what moved away is to find another. More would make
	// a cluster whose other members fail meanwhile be missed for longer. Doubling, up to maxLeftFor, for one that is left
	// again within a minute of its return: a member that is far away stays so, and each time watches move twice.
	leftFor    = 5 * time.Second
	maxLeftFor = time.Minute
)

// members lets the floors' client leave members of etcd that are connected and do not answer: frozen ones, slow ones, those
// that defragment or are cut off from the majority. gRPC would notice the first kind after 40 s and the others never.
//
// The rule: a read that is late is sent to another member too. A member whose reads were all overtaken like this for as
// long as patience is left: its connection is closed, and the watches of caches on it go on at another member from where
// they are, as after any lost connection. So nobody is left while nobody answers, as without a leader.
type members struct {
	others    int // members besides the one that is asked
	dial      func(ctx context.Context, addr string) (net.Conn, error)
	roundTrip atomic.Int64 // moving average, in ns; 0: not measured

	mu   sync.Mutex
	left map[string]leaving // the newest, by address
}

// leaving is when a member was left, and for how long.
type leaving struct {
	at   time.Time
	stay time.Duration
}

// again is the next one, now.
func (l leaving) again(now time.Time) leaving {
	if l.at.IsZero() || now.Sub(l.at) > l.stay+maxLeftFor {
		return leaving{now, leftFor}
	}
	return leaving{now, min(2*l.stay, maxLeftFor)}
}

// newMembers is nil where no member can be left: there is only one, or an HTTP proxy of the environment leads to them,
// which a dialer of ours would go past. dial is nil for gRPC's own way.
func newMembers(endpoints []string, dial func(context.Context, string) (net.Conn, error)) *members {
	if len(endpoints) < 2 {
		return nil
	}
	if dial == nil {
		for _, endpoint := range endpoints {
			if proxied(endpoint) {
				return nil
			}
		}
		dial = dialDirectly
	}
	return &members{others: len(endpoints) - 1, dial: dial, left: map[string]leaving{}}
}

// proxied says whether gRPC would go through a proxy, which it looks up as for an HTTPS server.
func proxied(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		u = &url.URL{Host: endpoint}
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: u.Host}})
	return proxy != nil || err != nil
}

// dialDirectly dials what gRPC hands to a dialer: a TCP address, or the path of a unix socket with its scheme.
func dialDirectly(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	if u, err := url.Parse(addr); err == nil && u.Scheme == "unix" {
		return dialer.DialContext(ctx, "unix", cmp.Or(u.Path, u.Opaque))
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

func (m *members) options() []grpc.DialOption {
	if m == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(m.connect), grpc.WithChainUnaryInterceptor(m.intercept)}
}

// connect dials a member, later where it was left.
func (m *members) connect(ctx context.Context, addr string) (net.Conn, error) {
	m.mu.Lock()
	left := m.left[addr]
	m.mu.Unlock()
	if wait := left.stay - time.Since(left.at); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	conn, err := m.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &memberConn{Conn: conn, addr: addr}, nil
}

// memberConn is a connection that a call can name: its local address, which gRPC tells of each call, leads back to it.
type memberConn struct {
	net.Conn
	addr  string
	owing monotonic.Atomic // when the first read was sent that was overtaken since one was answered; 0: none
}

// LocalAddr is net.Conn.
func (c *memberConn) LocalAddr() net.Addr { return memberAddr{c.Conn.LocalAddr(), c} }

type memberAddr struct {
	net.Addr
	conn *memberConn
}

// connOf is nil for a call that found no connection.
func connOf(p *peer.Peer) *memberConn {
	addr, _ := p.LocalAddr.(memberAddr)
	return addr.conn
}

// intercept stands below the client's own retries. Only reads may be sent twice.
func (m *members) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	first, ok := reply.(*pb.RangeResponse)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return m.read(ctx, m.others, first, func(ctx context.Context, answer *pb.RangeResponse, p *peer.Peer) error {
		opts := append(slices.Clone(opts), grpc.Peer(p))
		if answer != first { // the caller's own peer is written by one call alone
			opts = slices.DeleteFunc(opts, func(o grpc.CallOption) bool {
				theirs, ok := o.(grpc.PeerCallOption)
				return ok && theirs.PeerAddr != p
			})
		}
		return invoke(ctx, method, req, answer, cc, opts...)
	})
}

type readCall func(context.Context, *pb.RangeResponse, *peer.Peer) error

// read calls, and when that is late once more, which gRPC sends to the next member, and so on to the number of others. It
// returns when all calls have.
func (m *members) read(ctx context.Context, others int, answer *pb.RangeResponse, call readCall) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var another pb.RangeResponse
	var anotherErr error
	var timer *time.Timer
	returned := make(chan struct{})
	if others > 0 {
		timer = time.AfterFunc(m.late(), func() {
			defer close(returned)
			if anotherErr = m.read(ctx, others-1, &another, call); anotherErr == nil {
				cancel()
			}
		})
	}
	var p peer.Peer
	sent := time.Now()
	err := call(ctx, answer, &p)
	if err == nil {
		m.answered(connOf(&p), time.Since(sent))
	}
	if timer == nil || timer.Stop() {
		return err
	}
	if err == nil {
		cancel()
	}
	<-returned
	if err == nil || anotherErr != nil {
		return err
	}
	m.overtaken(connOf(&p), sent)
	proto.Reset(answer)
	proto.Merge(answer, &another)
	return nil
}

func (m *members) late() time.Duration {
	return max(hedgeAfter, hedgeRoundTrips*time.Duration(m.roundTrip.Load()))
}

func (m *members) answered(c *memberConn, took time.Duration) {
	average := m.roundTrip.Load()
	m.roundTrip.Store(average + (int64(took)-average)/8) // what a read beside this one adds may be lost
	if c == nil {
		return
	}
	if owed := c.owing.Load(); owed != wasLeft {
		c.owing.CompareAndSwap(owed, 0)
	}
}

// wasLeft is what a connection owes that was closed: one of the reads that wait for it there
// closes it, and the others do not count as leaving again.
const wasLeft = math.MaxInt64

// overtaken leaves the member when it is time.
func (m *members) overtaken(c *memberConn, sent time.Time) {
	if c == nil || c.owing.CompareAndSwap(0, monotonic.At(sent)) {
		return
	}
	owed := c.owing.Load() // 0: it has answered since
	if owed == 0 || owed.Since() < patience || !c.owing.CompareAndSwap(owed, wasLeft) {
		return
	}
	m.mu.Lock()
	m.left[c.addr] = m.left[c.addr].again(time.Now())
	m.mu.Unlock()
	klog.InfoS("A member of etcd is left: others answer and it does not", "address", c.addr)
	_ = c.Close() // gRPC finds it closed
}
