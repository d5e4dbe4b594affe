package decorator

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/guard"
	"github.com/rvfloor/rvfloor/progress"
)

const notOlderThan = metav1.ResourceVersionMatchNotOlderThan

// maxShadows bounds the reads that Shadow verifies at once; more are not verified.
const maxShadows = 1000

// read is one Get, GetList or Watch on its way to the cache.
type read struct {
	store   *Store
	ctx     context.Context // the caller's
	verb    verb
	route   route
	arrived time.Time
	span    *readSpan      // nil: none is recorded
	target  uint64         // what the answer must not be below; 0: not known yet
	shadow  bool           // it changes no answer
	unready bool           // the cache was not: the storage is to answer
	raw     bool           // what it was answered is from the raw storage; see listExactly
	number  uint64         // of a LIST, among those of its Store
	ahead   progress.Ahead // set by gate, and by Send
	held    bool           // it has waited for something already
	blind   bool           // nothing is known of the backend yet, and it has waited for that
}

func (s *Store) begin(ctx context.Context, v verb, r route) *read {
	rd := &read{store: s, ctx: ctx, verb: v, route: r, arrived: time.Now()}
	if s.backend.tracer != nil {
		rd.startSpan()
	}
	return rd
}

// gate blocks until the cache may answer, and returns the revision that the answer
// must not be below. toStorage says that upstream sends such a read to the storage
// while its cache is not ready: then there is nothing to wait for.
func (r *read) gate(toStorage bool) (floor uint64, err error) {
	s := r.store
	// Here too, for the reads that need no floor: that the cache has reached a
	// revision is no proof when it was one of another history.
	if lost := s.loss(r.verb == verbWatch); lost != nil {
		return 0, lost
	}
	select {
	case <-s.stream.Done():
		return 0, newFailure(ErrClosed, nil, r.verb == verbWatch)
	default:
	}
	direct, err := r.direct()
	if err != nil {
		return 0, err
	}
	// A blind one reads a floor first: nobody may have looked because the backend is out of
	// reach, and then a quorum list would hang for far longer than MaxWait.
	if direct && r.route.kind != routeLeast && !r.blind {
		return 0, r.directOnly()
	}
	ready := s.inner.ReadinessCheck() == nil
	if !ready && !toStorage && !direct {
		_, wait := r.part(spanCacheWait)
		if err := r.waitReady(); err != nil {
			return 0, wait.end(r.lostOr(waitFailure(r.ctx, err, 0, 0, r.verb == verbWatch)))
		}
		wait.end(nil)
	}
	lossy := r.verb != verbWatch && (s.backend.chooser.present().lossy || s.unfit())
	if r.route.kind == routeLeast && s.stream.Revision() >= r.route.least && (ready || !direct) && !lossy {
		r.target = r.route.least
		return r.target, nil
	}
	r.ahead = s.stream.Begin()
	_, wait := r.part(spanFloorWait)
	f, err := r.floor()
	if err != nil {
		return 0, wait.end(r.lostOr(floorFailure(r.ctx, err, r.verb == verbWatch)))
	}
	// The floor may be one of the history that has begun since.
	if lost := s.loss(r.verb == verbWatch); lost != nil {
		return 0, wait.end(lost)
	}
	wait.end(nil)
	// Nobody could tell this read of another strategy while it did not wait for the cache.
	if direct, err = r.direct(); err != nil {
		return 0, err
	}
	target := f.Revision
	if r.route.kind == routeLeast {
		if r.route.least > f.Revision {
			return 0, tooLarge(r.route.least, f.Revision)
		}
		target = r.route.least
	}
	r.target = target
	if r.route.ungated {
		return target, nil
	}
	if direct {
		return 0, r.directOnly()
	}
	s.observe.behind(f.Revision, s.stream.Revision())
	if ready = ready || s.inner.ReadinessCheck() == nil; ready || !toStorage {
		if s.unwatched() {
			return 0, r.directOnly()
		}
		_, wait := r.part(spanCacheWait)
		err := r.await(target)
		s.observe.behind(f.Revision, s.stream.Revision())
		if err != nil {
			return 0, wait.end(r.lostOr(waitFailure(r.ctx, err, target, s.stream.Revision(), r.verb == verbWatch)))
		}
		wait.end(nil)
	}
	r.unready = !ready && toStorage
	s.observe.fresh(r.verb, r.arrived)
	return target, nil
}

// inner is what answers the read after the gate. Not the cache while that is being filled:
// upstream sends such a read to the storage, or, where it has become ready just then, to a
// cache that need not have reached the floor and waits for it without the caller's deadline.
func (r *read) inner() storage.Interface {
	if r.pastCache() {
		return r.store.resource.Raw
	}
	return r.store.inner
}

func (r *read) pastCache() bool { return r.unready && r.store.resource.Raw != nil }

// direct reports whether the read must bypass the cache; an error means that nothing may answer
// it.
func (r *read) direct() (bool, error) {
	choice, err := r.choice()
	if err != nil {
		return false, err
	}
	if choice.refused != nil {
		return false, newFailure(choice.refused, nil, r.verb == verbWatch)
	}
	if choice.failing {
		r.store.backend.chooser.tryAgain()
	}
	past := choice.first(r.store.resource.Feed) == StrategyDirect || r.store.unfit()
	return past && !r.route.ungated, nil
}

// lostOr returns why the cache is lost, or why it could not be filled, which is more to the
// point than what came of it; err where it is neither.
func (r *read) lostOr(err error) error {
	if lost := r.store.loss(r.verb == verbWatch); lost != nil {
		return lost
	}
	if errors.Is(err, ErrNotReady) {
		return newFailure(ErrNotReady, r.store.unfilled(), r.verb == verbWatch)
	}
	return err
}

// await blocks until the cache has reached target. A deadline costs more than all else
// here, so only who has to wait gets one.
func (r *read) await(target uint64) error {
	s := r.store
	if s.stream.Revision() >= target {
		return r.ahead.Wait(r.ctx, target)
	}
	ctx, cancel := r.patience()
	defer cancel()
	s.observe.waiting(1)
	defer s.observe.waiting(-1)
	return r.ahead.Wait(ctx, target)
}

// Send is freshness.Companion: it asks for progress beside the floor read.
func (r *read) Send() {
	// A pilot that finds nobody waiting would go back to sleep.
	if r.store.pilot == nil {
		r.ahead = r.store.stream.Ahead()
	}
}

// Settle is joinnext.Settler: the callers of a crowd are woken when the progress that
// Send asked for has come, so that they wait once and not twice. Those of another
// resource wait for it no longer than settleTime.
func (r *read) Settle(ctx context.Context, floor freshness.Floor) {
	if r.store.pilot == nil && floor.Revision > 0 {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		_ = r.store.stream.Wait(ctx, floor.Revision) // the callers see for themselves
	}
}

// settleTime is some round trips of a progress request that was sent with the read.
const settleTime = 2 * time.Millisecond

// patience returns the context of what the read waits for. MaxWait is counted from its
// arrival, so that waits for one thing after another do not add up.
func (r *read) patience() (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(r.ctx, r.arrived.Add(r.store.backend.cfg.MaxWait), errMaxWait)
}

// floor reads a floor. Those who read it bound each wait by MaxWait, which a read that has
// waited for something else before, or was held up, has not all of any more.
func (r *read) floor() (freshness.Floor, error) {
	b := r.store.backend
	ctx := r.ctx
	if r.held || time.Since(r.arrived) > b.cfg.MaxWait/64 {
		var cancel context.CancelFunc
		ctx, cancel = r.patience()
		defer cancel()
	}
	var beside freshness.Companion
	if !r.blind { // else nobody knows whether progress may be asked for
		beside = r
	}
	if r.route.kind == routeBounded {
		return b.floors.WithinBeside(ctx, b.cfg.MaxStaleness, beside)
	}
	return b.floors.NextBeside(ctx, beside)
}

// wait blocks until the cache has all of a revision of which it was seen to have a
// part.
func (r *read) wait(revision uint64) error {
	s := r.store
	ctx, cancel := r.patience()
	defer cancel()
	_, wait := r.part(spanCacheWait)
	if err := s.stream.Wait(ctx, revision); err != nil {
		return wait.end(r.lostOr(waitFailure(r.ctx, err, revision, s.stream.Revision(), r.verb == verbWatch)))
	}
	return wait.end(nil)
}

// breach is an answer below the floor, after the gate: a fault of ours or of the
// cache. It never reaches the caller.
func (r *read) breach(answered string, floor uint64) error {
	r.store.observe.breach("the cache answered below the floor", "verb", r.verb.String(), "answered", answered, "floor", floor)
	return newFailure(ErrNotFresh, fmt.Errorf("the cache answered at %q and %d was asked for", answered, floor), r.verb == verbWatch)
}

// falls says whether a read that failed with err is to be answered by a policy.
func (r *read) falls(policy OnUnverified, err error) bool {
	if err == nil || r.ctx.Err() != nil {
		return false
	}
	if policy == UnverifiedDirect && errors.Is(err, errDirect) {
		return true
	}
	configured := r.store.backend.cfg.OnUnverified
	if configured == UnverifiedQuorum && policy == UnverifiedDirect {
		return r.target != 0 && errors.Is(err, ErrNotFresh) && r.store.loss(false) == nil
	}
	if configured != policy {
		return false
	}
	if r.store.loss(false) != nil {
		return policy == UnverifiedDirect // the cache holds what never was
	}
	return errors.Is(err, ErrNoFloor) || errors.Is(err, ErrNotFresh)
}

func (r *read) warnStale() {
	warning.AddWarning(r.ctx, "rvfloor", fmt.Sprintf(
		"this answer is from a cache at revision %d that could not be verified; it may be stale", r.store.stream.Revision()))
}

// end counts the read, and returns err.
func (r *read) end(err error, outcome outcome) error {
	r.store.observe.read(r.verb, r.route.kind, outcome)
	r.store.observe.failed(err, outcome)
	r.annotate(outcome)
	if r.span != nil {
		r.endSpan(err, outcome)
	}
	return err
}

// bypass is true when the Backend's mode lets the call go on unchanged. In shadow mode
// it verifies and counts the read beside the call.
func (s *Store) bypass(ctx context.Context, v verb, r route) bool {
	switch s.backend.Mode() {
	case ModeVerify:
		return false
	case ModeOff:
		return true
	}
	select {
	case s.shadows <- struct{}{}:
	default:
		s.observe.read(v, r.kind, outcomeBusy)
		return true
	}
	begun := s.verifying.begin(func() {
		defer func() { <-s.shadows }()
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.backend.cfg.MaxWait, errMaxWait)
		defer cancel()
		read := s.begin(ctx, v, r)
		read.shadow = true
		err := guard.Call(func() error {
			_, err := read.gate(false)
			if errors.Is(err, errDirect) && v != verbWatch {
				return nil // it would have been answered
			}
			return err
		})
		read.end(err, outcomeOf(err))
	})
	if !begun {
		<-s.shadows
	}
	return true
}

// waitReady blocks while the cache is being filled, for ReadyWait at most.
func (r *read) waitReady() error {
	r.held = true
	ctx, cancel := r.patience()
	defer cancel()
	return r.store.waitReady(ctx)
}

// waitReady blocks while the cache is being filled.
func (s *Store) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.backend.cfg.ReadyWait, errReadyWait)
	defer cancel()
	for {
		filled := s.fills.next() // before the look, so that no fill is missed
		if s.inner.ReadinessCheck() == nil {
			return nil
		}
		var look <-chan time.Time
		if s.pilot != nil {
			look = time.After(pilotReadyEach) // nobody tells of its fills
		}
		select {
		case <-filled:
		case <-look:
		case <-s.stream.Done():
			return progress.ErrClosed
		case <-ctx.Done():
			return errReadyWait // also where the caller's own deadline came first
		}
	}
}

// watchFailure gives a Watch's error the form that upstream's cacher would: a 429, from
// which client-go's reflector backs off, and what is wrong with the options are the call's
// error; what comes after these were parsed is one ERROR event.
func watchFailure(err error) (watch.Interface, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) || apierrors.IsInvalid(err) {
		return nil, err
	}
	w := watch.NewFakeWithChanSize(1, false)
	object := status.Status()
	w.Error(&object)
	w.Stop()
	return w, nil
}

func watchListEnabled() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
}
