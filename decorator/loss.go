package decorator

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// errInconsistent tells why a Store is distrusted.
var errInconsistent = errors.New("a consistency check found that the cache differs from the backend")

// distrust records, once, that a cache was found to be wrong.
type distrust struct {
	once  sync.Once
	found chan struct{} // closed when it was
}

// Distrust tells that the cache differs from the backend: nothing is answered from it
// any more. A Healing builds another. In ModeOff it does nothing. Idempotent.
func (s *Store) Distrust() {
	if s.backend.Mode() == ModeOff {
		return
	}
	s.distrust.once.Do(func() {
		close(s.distrust.found)
		s.observe.breach(errInconsistent.Error())
	})
}

// loss is why nothing may be answered from the cache for ever, as the error of a read,
// or nil: the history that it is from has gone back, or it was found to be wrong.
func (s *Store) loss(watch bool) error {
	if rewound := s.epoch.Rewound(); rewound != nil {
		return newFailure(rewound, s.unfilled(), watch)
	}
	select {
	case <-s.distrust.found:
		cause := errInconsistent
		if why := s.unfilled(); why != nil {
			cause = fmt.Errorf("%w; %w", errInconsistent, why)
		}
		return newFailure(ErrNotReady, cause, watch)
	default:
		return nil
	}
}

// unverified is where a read goes that needs no floor: the inner storage, and past its
// cache when that is lost or wrong. Which reads of these the inner one answers from its cache is
// its own affair.
func (s *Store) unverified() (storage.Interface, error) {
	if s.backend.Mode() != ModeVerify {
		return s.inner, nil
	}
	err := s.loss(false)
	if err == nil && (s.wrong.Load() == nil || s.resource.Raw == nil) {
		return s.inner, nil
	}
	if s.resource.Raw == nil {
		return nil, err
	}
	return s.resource.Raw, nil
}

// writer is where a write goes that may begin with what the cache suggests: past it, and
// with no suggestion, when the cache is lost, and as long as it is not known to be of the
// backend's history. Where two histories have given one revision to an object, the
// backend takes a write that was made of the wrong one.
func (s *Store) writer(cached runtime.Object) (storage.Interface, runtime.Object, error) {
	if s.backend.Mode() != ModeVerify {
		return s.inner, cached, nil
	}
	lost := s.loss(false)
	switch {
	case s.resource.Raw != nil && (lost != nil || s.wrong.Load() != nil || s.backend.floors.Doubted()):
		return s.resource.Raw, nil, nil
	case lost != nil:
		return nil, nil, lost
	}
	return s.inner, cached, nil
}

// abandon wakes those who wait for a cache that is lost.
func (s *Store) abandon() { s.stream.Close() }
