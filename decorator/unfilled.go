package decorator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// refillPatience is how long a resource whose cache was lost keeps the server from being
// ready. It is what upstream's start-up hook waits for caches: a cache that can be filled is
// by then, and one that cannot (a conversion webhook or a KMS is down, an object is corrupt)
// may need this very server to be ready first. Shorter, and a server gets requests for what
// it is about to have; longer, and one resource takes the others with it.
const refillPatience = time.Minute

// refill tracks the cache that is to replace a lost one.
type refill struct {
	since time.Time // the loss
	next  *Store    // nil: it could not be built
	err   error     // why not
}

// overdue reports whether the resource no longer keeps the server from being ready.
func (r *refill) overdue() bool { return r != nil && time.Since(r.since) >= refillPatience }

// fillFailed stores why the cache could not be filled, for unfilled to return.
func (f *Feed) fillFailed(err error) {
	if err != nil {
		f.fillError.Store(&err)
	}
}

// fillFailedBy calls fillFailed with the ERROR event that ended a fill.
func (f *Feed) fillFailedBy(event watch.Event) { f.fillFailed(apierrors.FromObject(event.Object)) }

// unfilled returns why the cache, or the one that is to take its place, could not be filled
// when that was last tried; nil where it is filled or nothing has failed.
func (s *Store) unfilled() error {
	var why error
	switch r := s.refill.Load(); {
	case r != nil && r.next != nil:
		return r.next.unfilled()
	case r != nil:
		why = r.err
	case s.inner.ReadinessCheck() == nil:
	case s.resource.Feed == nil:
		why = s.inner.ReadinessCheck()
	default:
		if failed := s.resource.Feed.fillError.Load(); failed != nil {
			why = *failed
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("the cache cannot be filled: %v", why) // not wrapped: it is not what the read failed with
}

// tellOverdue says once that a resource is left out of readiness, unless ctx ends before.
func (s *Store) tellOverdue(ctx context.Context) {
	select {
	case <-time.After(refillPatience):
		klog.ErrorS(s.unfilled(), "A lost watch cache is still not filled: reads of its resource go on to fail, and keep the server from being ready no longer", "resource", s.resource.GroupResource)
	case <-ctx.Done():
	}
}
