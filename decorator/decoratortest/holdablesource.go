package decoratortest

import (
	"context"
	"sync"

	"github.com/rvfloor/rvfloor/freshness"
)

// HoldableSource is a Source whose answers can be held back: after the backend has
// given them, as by a slow network. It has the methods of a ReadHolder.
type HoldableSource struct {
	source freshness.Source

	mu      sync.Mutex
	held    chan struct{} // closed when there is an answer to hold
	release chan struct{} // closed by ReleaseReads; nil: nothing is held
}

// NewHoldableSource returns source with answers that can be held back.
func NewHoldableSource(source freshness.Source) *HoldableSource {
	return &HoldableSource{source: source}
}

// HoldReads holds back what the backend answers from now on. The channel is closed
// when there is an answer.
func (s *HoldableSource) HoldReads() (held <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release == nil {
		s.held, s.release = make(chan struct{}), make(chan struct{})
	}
	return s.held
}

// ReleaseReads lets all answers go.
func (s *HoldableSource) ReleaseReads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release != nil {
		close(s.release)
		s.release = nil
	}
}

// Read is freshness.Source.
func (s *HoldableSource) Read(ctx context.Context) (freshness.Reading, error) {
	reading, err := s.source.Read(ctx)
	s.mu.Lock()
	release := s.release
	if release != nil {
		select {
		case <-s.held:
		default:
			close(s.held)
		}
	}
	s.mu.Unlock()
	if release == nil {
		return reading, err
	}
	select {
	case <-release:
		return reading, err
	case <-ctx.Done():
		return freshness.Reading{}, context.Cause(ctx)
	}
}
