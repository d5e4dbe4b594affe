package decorator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// Healing is a storage.Interface over a Store, which it has built anew, with its cache,
// when the backend's history has gone back or the cache was found to be wrong. From that
// moment until the new cache is filled the old Store answers, whose reads fail and whose
// writes go past the cache. The watches that the old Store had opened end at once, and whoever
// asks to go on from a revision that may be lost gets 410, so that clients list again.
//
// Where the new cache cannot be filled, reads say why and Status has it, and after a minute
// the resource no longer keeps Backend.Check from being nil.
//
// It begins another epoch of the Backend's floors: a Store of the same Backend without
// a Healing goes on to fail.
type Healing struct {
	backend *Backend
	build   func() (Generation, error)
	present atomic.Pointer[generation]
	resumes atomic.Pointer[resumption] // nil: nothing was lost yet
	life    context.Context            // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup
	closed  sync.Once
}

const (
	// calmAfter is how long a cache must have lasted for the next to be built at once: a
	// backend that is restored, and not one that cannot be relied on.
	calmAfter = time.Minute
	// The first wait else, and the longest. Each time all caches of a backend are filled.
	rebuildBackoff    = time.Second
	maxRebuildBackoff = time.Minute
)

// Heal returns a Healing whose Stores and caches are built by build: now, and each time
// that they have to be. What build returns must not share with what it returned before
// what a cache keeps for itself: a storage takes EnableResourceSizeEstimation once. Its
// first error is returned; a later one is logged, and it is called again.
func (b *Backend) Heal(build func() (Generation, error)) (*Healing, error) {
	first, err := build()
	if err != nil {
		return nil, err
	}
	h := &Healing{backend: b, build: build}
	h.life, h.end = context.WithCancel(context.Background())
	h.present.Store(newGeneration(first))
	h.running.Go(h.run)
	return h, nil
}

// Close closes what was built, and returns when it has stopped. Idempotent.
func (h *Healing) Close() {
	h.closed.Do(func() {
		h.end()
		h.running.Wait()
		h.present.Load().shut()
	})
}

func (h *Healing) run() {
	built, backoff := time.Now(), time.Duration(0)
	for {
		g, reason := h.present.Load(), ""
		select {
		case <-g.Store.epoch.Ended():
			reason = "rewound"
		case <-g.Store.distrust.found:
			reason = "inconsistent"
		case <-h.life.Done():
			return
		}
		g.Store.abandon()
		now := time.Now()
		g.Store.refill.Store(&refill{since: now})
		// Whoever is stopped comes back to what is said here. The watches are not left until
		// there is another cache: they would bring events of the new history.
		lost := resumption{base: nowhere, lost: g.Store.highest(), until: now.Add(comeBack)}
		h.resumes.Store(&lost)
		g.watches.end()
		if now.Sub(built) >= calmAfter {
			backoff = 0
		}
		next := h.rebuild(g.Store, now, &backoff)
		if next == nil {
			return
		}
		built = time.Now()
		h.resumes.Store(&resumption{base: next.Store.stream.Revision(), lost: lost.lost, until: lost.until})
		next.Store.aside.Store(false)
		h.present.Store(next)
		g.Store.aside.Store(true)
		g.Store.observe.reopened(reason)
		g.retire()
		h.running.Go(func() {
			select {
			case <-g.drained:
			case <-h.life.Done():
			}
			g.shut()
		})
	}
}

// rebuild returns the next generation, with a cache that is filled, or nil when the
// Healing was closed.
func (h *Healing) rebuild(old *Store, since time.Time, backoff *time.Duration) *generation {
	ctx, done := context.WithCancel(h.life)
	defer done()
	h.running.Go(func() { old.tellOverdue(ctx) })
	for {
		select {
		case <-time.After(*backoff):
		case <-h.life.Done():
			return nil
		}
		*backoff = min(max(2**backoff, rebuildBackoff), maxRebuildBackoff)
		h.backend.floors.Renew(h.backend.floors.Epoch())
		var next Generation
		err := guard.Call(func() (err error) {
			next, err = h.build()
			return err
		})
		if err == nil {
			next.Store.aside.Store(true)
			next.Store.before.Store(old.wrong.Load())
			old.refill.Store(&refill{since: since, next: next.Store})
			if err = guard.Call(func() error { return next.Store.filled(h.life) }); err == nil {
				klog.InfoS("A watch cache was built anew", "resource", old.resource.GroupResource, "seconds", time.Since(since).Seconds())
				return newGeneration(next)
			}
			newGeneration(next).shut()
		}
		old.refill.Store(&refill{since: since, err: err})
		if h.life.Err() == nil {
			klog.ErrorS(err, "A watch cache could not be built anew; it is tried again", "resource", old.resource.GroupResource, "after", *backoff, "stack", guard.Stack(err))
		}
	}
}

// highest is no lower than any revision that the cache can have answered.
func (s *Store) highest() uint64 {
	highest := s.stream.Revision()
	if rewound := s.epoch.Rewound(); rewound != nil {
		highest = max(highest, rewound.Seen)
	}
	return highest
}

// filled returns when the cache is, or is lost before, or when ctx ends.
func (s *Store) filled(ctx context.Context) error {
	for {
		err := s.waitReady(ctx)
		switch {
		case err == nil:
			return s.stream.Wait(ctx, 1) // what it was filled with is known
		case ctx.Err() != nil:
			return ctx.Err()
		case s.loss(false) != nil:
			return s.loss(false)
		case !errors.Is(err, errReadyWait):
			return fmt.Errorf("decorator: the cache of %s: %w", s.resource.GroupResource, err)
		}
	}
}

// enter is the generation that a call is to go to. The caller leaves it.
func (h *Healing) enter() *generation {
	for {
		if g := h.present.Load(); g.enter() {
			return g
		}
	}
}

// Store is the present one.
func (h *Healing) Store() *Store { return h.present.Load().Store }
