package decorator

import (
	"context"
	"errors"

	ways "github.com/rvfloor/rvfloor/decorator/strategy"
)

const (
	// StrategyAuto takes the cheapest that is sound on the backend, see Properties.Choose, and
	// the next one while that does not work. The default.
	StrategyAuto = ways.Auto
	// StrategyRequest asks for progress on the cache's own watch.
	StrategyRequest = ways.Request
	// StrategyNudge is StrategyRequest, and a write to the sentinel where the replies stand
	// below the floor. It needs a Source that is a Nudger.
	StrategyNudge = ways.Nudge
	// StrategyRangeProof proves by a range of the backend that nothing was changed. It
	// needs Resource.Prove; a resource without takes the next strategy under StrategyAuto.
	StrategyRangeProof = ways.RangeProof
	// StrategyWrite writes an object among those of the resource and waits until the cache's
	// watch brings it. API servers without this strategy see the object, so it is never
	// taken by StrategyAuto. It needs a Feed.
	StrategyWrite = ways.Write
	// StrategyDirect has no cache answer: LISTs are quorum lists, as under UnverifiedDirect,
	// and Gets raw Gets. A Watch that would have to be verified fails with ErrNotFresh.
	StrategyDirect = ways.Direct
)

// Strategies returns all there are, StrategyAuto first.
func Strategies() []Strategy { return ways.All() }

var strategies = ways.All()

// strategy is a Strategy for one cache.
type strategy interface {
	// Advance sees to it that the cache learns that it has reached target, a revision that
	// somebody waits for; 0: not known yet. It returns when that cannot be hurried any
	// more, or when ctx ends, and is not called twice at once.
	Advance(ctx context.Context, target uint64) error
}

// errDirect is why a cache is not waited for.
var errDirect = errors.New("the strategy for this backend has no cache answer")

// advance brings the cache of a Feed to target by the present strategy.
func (f *Feed) advance(ctx context.Context, target uint64) error {
	if target == 0 && !f.asks() {
		return nil
	}
	switch f.strategy() {
	case StrategyNudge:
		return f.nudge.Advance(ctx, target)
	case StrategyRangeProof:
		return f.proof.Advance(ctx, target)
	case StrategyWrite:
		return f.write.Advance(ctx, target)
	case StrategyDirect:
		// No read waits for the cache, but a watch may wait for the rest of a revision.
		if f.wiring.fails() != nil || !f.backend.chooser.ordered() {
			return nil
		}
	}
	return f.request.Advance(ctx, target)
}

// strategy is the first of the Backend's that this cache can be brought to a floor by.
func (f *Feed) strategy() Strategy {
	if f.wiring.fails() != nil {
		return StrategyDirect
	}
	return f.backend.chooser.present().first(f)
}

// asks says whether a request for progress is of use, for whatever target.
func (f *Feed) asks() bool {
	s := f.strategy()
	return s == StrategyRequest || s == StrategyNudge
}

// advanceTimeout bounds one call of Advance: as long as a quorum list may take.
const advanceTimeout = directTimeout

// stoodStill is that a cache of which target is waited for gets answers that are below it
// and do not move.
func (b *Backend) stoodStill(present Strategy, target uint64) {
	if present == StrategyNudge && target > b.nudges.now().tried.Load() {
		return // nothing was written for it yet
	}
	b.chooser.failed(target, "progress stands still below the revision of the backend", present)
}

// fellSilent is that a cache of which target is waited for has not come nearer.
func (b *Backend) fellSilent(present Strategy, target uint64) {
	switch present {
	case StrategyRequest, StrategyNudge:
		b.chooser.failed(target, "requests for progress are not answered", StrategyRequest, StrategyNudge)
	default:
		b.chooser.failed(target, "caches do not get to the revision of the backend", present)
	}
}
