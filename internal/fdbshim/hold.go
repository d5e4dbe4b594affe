package fdbshim

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// HoldWatches holds back all that the watches of the process would send from now on,
// until ReleaseWatches, while its other calls are answered.
func (s *Server) HoldWatches() {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.held == nil {
		s.gate.held = make(chan struct{})
	}
}

// ReleaseWatches lets go what was held back, in order. It may be called again.
func (s *Server) ReleaseWatches() {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.gate.held != nil {
		close(s.gate.held)
		s.gate.held = nil
	}
}

// gate is what the responses of watches go through.
type gate struct {
	mu   sync.Mutex
	held chan struct{} // closed by ReleaseWatches; nil while nothing is held back
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *watchStream) send(resp *pb.WatchResponse) error {
	if err := s.server.gate.pass(s.stream.Context()); err != nil {
		return err
	}
	return s.stream.Send(resp)
}
