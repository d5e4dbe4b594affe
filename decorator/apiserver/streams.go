package apiserver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

const (
	// streamPatience is how long a stream may take to be opened on a connection that is ready, twice, until it is taken
	// for one that allows no more: gRPC tells nobody what the server allows. Shorter, and a process that gets no CPU opens
	// connections in vain; longer, and caches are filled later where streams lack.
	streamPatience = 300 * time.Millisecond
	// streamReserve is how many streams of a connection that has turned out to be full are left to floors, which must not
	// stand behind watches, and to the probe, which opens some watches of its own.
	streamReserve = 8
	// lateCall is how long a call may take until it is looked at whether streams are what lacks.
	lateCall = time.Second
)

var (
	errStreamsClosed = status.Error(codes.Unavailable, "rvfloor: the etcd clients are closed")
	errStreamMoves   = status.Error(codes.Unavailable, "rvfloor: the watch moves to another connection, to leave this one to floors")
)

// streams opens the gRPC streams of the watches of caches: on the floors' connection, and on others once it allows no
// more, as behind a proxy or an etcd with a small --max-concurrent-streams. Upstream has a connection for each resource,
// and never meets that limit.
type streams struct {
	dial  func(context.Context) (*clientv3.Client, error)
	life  context.Context // ends with close
	end   context.CancelFunc
	looks sync.WaitGroup // and calls of suspect
	busy  atomic.Bool    // suspect looks

	growing sync.Mutex // one connection is dialed at a time

	mu     sync.Mutex
	closed bool
	conns  []*streamConn // the floors' first
}

// streamConn is one connection.
type streamConn struct {
	client  *clientv3.Client
	limit   int            // of watches; below 0: not known
	fulls   int            // how often it was found full
	pending int            // streams that are being opened
	open    []*watchStream // the newest last
}

var _ grpc.ClientConnInterface = (*streams)(nil)

func newStreams(floor *clientv3.Client, dial func(context.Context) (*clientv3.Client, error)) *streams {
	s := &streams{dial: dial, conns: []*streamConn{{client: floor, limit: -1}}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Invoke is grpc.ClientConnInterface, on the floors' connection.
func (s *streams) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return s.conns[0].client.ActiveConnection().Invoke(ctx, method, args, reply, opts...)
}

// NewStream is grpc.ClientConnInterface, on the first connection that has room.
func (s *streams) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	for {
		c, fulls, err := s.enter()
		if err != nil {
			return nil, err
		}
		if c == nil {
			if err := s.grow(); err != nil {
				return nil, status.Error(codes.Unavailable, err.Error())
			}
			continue
		}
		stream, full, err := s.try(ctx, c, desc, method, opts...)
		s.mu.Lock()
		c.pending--
		if stream != nil {
			c.open = append(c.open, stream)
			context.AfterFunc(stream.life, func() { s.leave(stream) })
		}
		s.mu.Unlock()
		switch {
		case full:
			if err := s.full(c, fulls); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		default:
			return stream, nil
		}
	}
}

// enter returns a connection with room, nil where there is none.
func (s *streams) enter() (c *streamConn, fulls int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, errStreamsClosed
	}
	for _, c := range s.conns {
		if c.limit < 0 || len(c.open)+c.pending < c.limit {
			c.pending++
			return c, c.fulls, nil
		}
	}
	return nil, 0, nil
}

func (s *streams) leave(stream *watchStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range stream.conn.open {
		if other == stream {
			stream.conn.open = append(stream.conn.open[:i:i], stream.conn.open[i+1:]...)
			return
		}
	}
}

// try opens a stream. full tells that the connection is ready and does not take it.
func (s *streams) try(ctx context.Context, c *streamConn, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (_ *watchStream, full bool, err error) {
	conn := c.client.ActiveConnection()
	ctx, cancel := context.WithCancel(ctx)
	done, late := make(chan struct{}), make(chan bool, 1)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		cancel()
		return nil, false, errStreamsClosed
	}
	s.looks.Go(func() {
		for strikes := 0; strikes < 2; {
			select {
			case <-time.After(streamPatience):
			case <-done:
				late <- false
				return
			case <-s.life.Done():
				strikes = 2
			}
			if strikes++; conn.GetState() != connectivity.Ready {
				strikes = min(strikes-1, 0)
			}
			if s.life.Err() != nil {
				break
			}
		}
		late <- true
		cancel()
	})
	s.mu.Unlock()
	inner, err := conn.NewStream(ctx, desc, method, opts...)
	close(done)
	if <-late {
		cancel()
		return nil, true, nil
	}
	if err != nil {
		cancel()
		return nil, false, err
	}
	return &watchStream{ClientStream: inner, conn: c, life: ctx, end: cancel}, false, nil
}

// full notes that a connection takes no more streams, unless somebody has since the caller entered. Of the floors' some
// watches move away.
func (s *streams) full(c *streamConn, fulls int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errStreamsClosed
	case c.fulls != fulls:
		return nil
	case c != s.conns[0] && len(c.open) == 0:
		return status.Error(codes.Unavailable, "rvfloor: etcd, or what is before it, allows no stream on a connection")
	}
	c.fulls++
	allowed := len(c.open)
	c.limit = allowed
	if c == s.conns[0] {
		c.limit = max(0, allowed-streamReserve)
	}
	for _, stream := range c.open[c.limit:] {
		stream.move()
	}
	klog.InfoS("A connection to etcd allows fewer streams than there are watches of caches; others are opened for them", "streams", allowed, "watches left on it", c.limit, "connections", len(s.conns))
	return nil
}

// grow dials another connection, unless there is room by now.
func (s *streams) grow() error {
	s.growing.Lock()
	defer s.growing.Unlock()
	c, _, err := s.enter()
	if err != nil {
		return err
	}
	if c != nil {
		s.mu.Lock()
		c.pending--
		s.mu.Unlock()
		return nil
	}
	client, err := s.dial(s.life)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(errStreamsClosed, client.Close())
	}
	s.conns = append(s.conns, &streamConn{client: client, limit: -1})
	return nil
}

// watchCalls is a grpc.UnaryClientInterceptor for the floors' connection. Where there are as many watches as it allows
// streams, none of them shows that it is full, and floors stand behind them.
func (s *streams) watchCalls(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	timer := time.AfterFunc(lateCall, s.suspect)
	defer timer.Stop()
	return invoke(ctx, method, req, reply, cc, opts...)
}

// suspect opens a stream on the floors' connection to see whether it takes it.
func (s *streams) suspect() {
	s.mu.Lock()
	c := s.conns[0]
	fulls := c.fulls
	if s.closed || len(c.open) == 0 || !s.busy.CompareAndSwap(false, true) {
		s.mu.Unlock()
		return
	}
	s.looks.Add(1)
	s.mu.Unlock()
	defer s.looks.Done()
	defer s.busy.Store(false)
	stream, full, _ := s.try(s.life, c, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/etcdserverpb.Watch/Watch")
	switch {
	case full:
		_ = s.full(c, fulls) // only that it is closed
	case stream != nil:
		stream.end()
	}
}

// close closes the connections that it has dialed, and ends what waits for one.
func (s *streams) close() error {
	s.mu.Lock()
	s.closed = true
	conns := s.conns[1:]
	s.end()
	s.mu.Unlock()
	var errs []error
	for _, c := range conns {
		errs = append(errs, c.client.Close())
	}
	s.looks.Wait()
	return errors.Join(errs...)
}

// watchStream is one that streams has opened.
type watchStream struct {
	grpc.ClientStream
	conn  *streamConn
	life  context.Context
	end   context.CancelFunc
	moves atomic.Bool
}

// move ends it, so that the watch goes on from where it is, on another connection.
func (w *watchStream) move() {
	w.moves.Store(true)
	w.end()
}

// RecvMsg is grpc.ClientStream.
func (w *watchStream) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if err == nil {
		return nil
	}
	w.end()
	if w.moves.Load() {
		return errStreamMoves // clientv3 opens another, as after a lost connection
	}
	return err
}
