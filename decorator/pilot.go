package decorator

import (
	"context"
	"errors"
	"time"

	grpcstatus "google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/guard"
	"github.com/rvfloor/rvfloor/progress"
)

// pilot asks a cache that somebody else built for the revision that it has
// applied: a list of a key that cannot exist answers with it, and with a revision
// asked for, not older, it blocks until the cache is there. One goroutine waits so
// for all readers of a Store.
type pilot struct {
	store  *Store
	key    string
	stream *progress.Stream
	wake   chan struct{}
	stop   context.CancelFunc
	done   chan struct{}
	nudge  nudge

	asked, before uint64 // targets of the newest kick, and of the one before
}

const (
	// A cache that is not ready refuses at once; it is asked again after this long,
	// doubling to pilotMaxBackoff.
	pilotBackoff    = 2 * time.Millisecond
	pilotMaxBackoff = 100 * time.Millisecond
	// pilotReadyEach is how often a cache without a Feed is looked at by reads that
	// wait for its fill: a twentieth of the default ReadyWait.
	pilotReadyEach = 10 * time.Millisecond
	// pilotRefused is how long a cache refuses the pilot's key until that is no accident; and
	// how soon it is asked again then.
	pilotRefused = 500 * time.Millisecond
)

func newPilot(s *Store) *pilot {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pilot{
		store: s,
		// No object has a percent sign in its name (path segment names exclude it).
		key:  trimSlash(s.resource.Prefix) + "/%rvfloor",
		wake: make(chan struct{}, 1),
		stop: cancel,
		done: make(chan struct{}),
	}
	p.nudge = nudge{p, s.backend.nudges, p.again}
	p.stream = s.backend.coordinator.NewStream(progress.StreamConfig{
		Advance: p.advance, Kicked: s.observe.kicked, Stuck: p.stuck, Silent: p.silent,
	})
	go p.run(ctx)
	return p
}

// advance brings the cache to target by the present strategy.
func (p *pilot) advance(ctx context.Context, target uint64) error {
	p.asked, p.before = target, p.asked
	if p.strategy() == StrategyNudge {
		return p.nudge.Advance(ctx, target)
	}
	return p.Advance(ctx, target)
}

func (p *pilot) strategy() Strategy { return p.store.backend.chooser.present().first(nil) }

// again says that the kick before was for nothing: nobody hears of what it was answered.
func (p *pilot) again() bool { return p.asked <= p.before }

// Advance is strategy's: StrategyRequest. It asks for progress as the cache itself would,
// and sees to it that the pilot waits for it.
func (p *pilot) Advance(ctx context.Context, _ uint64) error {
	select {
	case p.wake <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errRequestTimeout)
	defer cancel()
	return p.store.inner.RequestWatchProgress(ctx)
}

func (p *pilot) stuck(target uint64) {
	p.store.observe.stuck(target)
	p.store.backend.stoodStill(p.strategy(), target)
}

func (p *pilot) silent(target uint64) { p.store.backend.fellSilent(p.strategy(), target) }

func (p *pilot) run(ctx context.Context) {
	defer close(p.done)
	for {
		select {
		case <-p.wake:
			p.follow(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// follow waits with the readers, lowest revision first, until none waits.
func (p *pilot) follow(ctx context.Context) {
	backoff, refused := pilotBackoff, time.Time{}
	for ctx.Err() == nil {
		target, ok := p.stream.Lowest()
		if !ok && p.store.wiring.fails() != nil {
			target, ok, backoff = 1, true, pilotRefused // nobody waits until that is mended
		}
		if !ok {
			return
		}
		var applied uint64
		err := guard.Call(func() (err error) {
			applied, err = p.ask(ctx, target)
			return err
		})
		if stack := guard.Stack(err); stack != "" {
			klog.ErrorS(err, "A cache panicked when it was asked for its revision; it is asked again", "resource", p.store.resource.GroupResource, "stack", stack)
		}
		if err == nil {
			p.stream.Replied(applied)
			p.stream.Applied(applied)
			p.store.wiring.mended(misfitPilot)
		}
		switch {
		case !p.refused(ctx, err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= pilotRefused && p.store.wiring.fails() == nil:
			p.store.wiring.found(p.store.observe, misfitPilot)
			p.stream.Interrupt(misfitPilot.wrong())
		}
		if err == nil && applied >= target {
			backoff = pilotBackoff
			continue
		}
		select {
		case <-time.After(backoff):
			backoff = min(2*backoff, pilotMaxBackoff)
		case <-ctx.Done():
		}
	}
}

// refused is true for the error of a key, which a cache answers as it is; its others have a
// status, or are the storage's.
func (p *pilot) refused(ctx context.Context, err error) bool {
	var status apierrors.APIStatus
	var known *storage.StorageError
	switch {
	case err == nil || ctx.Err() != nil || guard.Stack(err) != "" || errors.As(err, &status) || errors.As(err, &known):
		return false
	}
	_, isGRPC := grpcstatus.FromError(err)
	return !isGRPC && p.store.inner.ReadinessCheck() == nil
}

// ask returns the revision of the cache once it is at target. The cacher's own
// wait ends after 3 s and does not heed ctx.
func (p *pilot) ask(ctx context.Context, target uint64) (uint64, error) {
	list := p.store.resource.NewList()
	opts := storage.ListOptions{ResourceVersion: formatRevision(target), ResourceVersionMatch: notOlderThan, Predicate: storage.Everything}
	if err := p.store.inner.GetList(ctx, p.key, opts, list); err != nil {
		return 0, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return p.store.router.versioner.ParseResourceVersion(accessor.GetResourceVersion())
}

func (p *pilot) close() {
	p.stop()
	p.stream.Close()
	<-p.done
}
