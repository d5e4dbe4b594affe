package fdbshim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/rvfloor/rvfloor/internal/gate"
	"github.com/rvfloor/rvfloor/internal/revision"
)

// Options are those of a [Server]. The zero value is a process without faults on a
// loopback port.
type Options struct {
	// Faults can be changed later.
	Faults Faults
	// Lag is how far behind is what is behind; 0 means 100 ms.
	Lag time.Duration
	// Version is what Status answers; empty means 3.6.11, as kine's.
	Version string
	// ProgressInterval is how often a watch that asked for progress is told of it, when
	// nothing else was delivered; 0 means 10 minutes, as etcd's.
	ProgressInterval time.Duration
	// Listener is where it serves, and is closed with it; nil means a loopback port.
	Listener net.Listener `json:"-"`
}

// Server is one process over a [Store].
type Server struct {
	// Watches holds back all that the watches of the process send, in order, while its
	// other calls are answered.
	Watches gate.Gate

	store    *Store
	opts     Options
	member   uint64
	faults   atomic.Pointer[Faults]
	grpc     *grpc.Server
	stopping chan struct{} // closed by Close
	stop     sync.Once
	serving  sync.WaitGroup
}

// members numbers the processes.
var members atomic.Uint64

// Serve starts a process over a database. The error is the network's.
func Serve(store *Store, opts Options) (*Server, error) {
	if opts.Lag == 0 {
		opts.Lag = 100 * time.Millisecond
	}
	if opts.Version == "" {
		opts.Version = "3.6.11"
	}
	if opts.ProgressInterval == 0 {
		opts.ProgressInterval = 10 * time.Minute
	}
	if opts.Listener == nil {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("fdbshim: %w", err)
		}
		opts.Listener = listener
	}
	s := &Server{store: store, opts: opts, member: members.Add(1), stopping: make(chan struct{})}
	s.faults.Store(&opts.Faults)
	s.grpc = grpc.NewServer(
		grpc.WaitForHandlers(true),
		grpc.StatsHandler(sessions{}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}), // as etcd's
	)
	pb.RegisterKVServer(s.grpc, kvServer{server: s})
	pb.RegisterWatchServer(s.grpc, watchServer{server: s})
	pb.RegisterLeaseServer(s.grpc, leaseServer{server: s})
	pb.RegisterMaintenanceServer(s.grpc, maintenanceServer{server: s})
	pb.RegisterClusterServer(s.grpc, clusterServer{server: s})
	s.serving.Go(func() { _ = s.grpc.Serve(opts.Listener) }) // ends with Close alone
	return s, nil
}

// Endpoint is what clients dial.
func (s *Server) Endpoint() string { return "http://" + s.opts.Listener.Addr().String() }

// Faults are those that the process has now.
func (s *Server) Faults() Faults { return *s.faults.Load() }

// SetFaults gives the process other faults. Calls and watches that are under way
// have them too.
func (s *Server) SetFaults(f Faults) { s.faults.Store(&f) }

// Close ends all calls and returns when that is done. It may be called again.
func (s *Server) Close() {
	s.stop.Do(func() {
		close(s.stopping)
		s.grpc.Stop()
	})
	s.serving.Wait()
}

// header is that of an answer.
func (s *Server) header(at int64) *pb.ResponseHeader {
	if s.Faults().ZeroRevision {
		at = 0
	}
	return &pb.ResponseHeader{ClusterId: s.store.clusterID, MemberId: s.member, Revision: at, RaftTerm: 1}
}

// session is one connection: what was written through it.
type session struct{ wrote revision.Ratchet }

type sessionKey struct{}

// sessionOf is the connection that a call came by.
func sessionOf(ctx context.Context) *session { return ctx.Value(sessionKey{}).(*session) }

// sessions puts them into the contexts of calls, which derive from their connection's.
type sessions struct{}

var _ stats.Handler = sessions{}

// TagConn implements stats.Handler.
func (sessions) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, sessionKey{}, &session{})
}

// HandleConn implements stats.Handler.
func (sessions) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (sessions) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (sessions) HandleRPC(context.Context, stats.RPCStats) {}
