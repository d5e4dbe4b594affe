package decorator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rvfloor/rvfloor/internal/guard"
	"github.com/rvfloor/rvfloor/internal/monotonic"
	"github.com/rvfloor/rvfloor/progress"
)

const (
	// trialEach is how soon a strategy that failed is tried again, while there are reads:
	// so long is a dearer one used at least. Doubling, up to maxTrialEach, where it fails
	// again.
	trialEach    = time.Second
	maxTrialEach = 30 * time.Second
	// trialTime bounds one trial: of something that takes milliseconds where it works.
	trialTime = time.Second
	// trialAsks is how often it asks for progress.
	trialAsks = 100 * time.Millisecond
	// trialCaches is on how many caches at once: that all of them are broken is unlikely where
	// the strategy works, and range proofs are not cheap.
	trialCaches = 4
	// signEach is how soon after one trial a sign of recovery begins another.
	signEach = 100 * time.Millisecond
)

// trials are what is tried of strategies that failed, one at a time.
type trials struct {
	life context.Context // ends with close
	end  context.CancelFunc
	due  monotonic.Atomic // when the next is

	mu      sync.Mutex
	busy    bool // one runs
	again   bool // a sign of recovery came meanwhile
	running sync.WaitGroup
	wait    time.Duration // before the next
	ended   time.Time     // the newest
	fared   time.Time     // when the newest strategy had worked
}

// lesson is what a trial teaches.
type lesson uint8

const (
	nothingTried lesson = iota // there was no floor, or no cache to try it on
	doesNotWork
	doesWork
)

func newTrials() trials {
	life, end := context.WithCancel(context.Background())
	return trials{life: life, end: end, wait: trialEach}
}

// failed schedules a trial, as a strategy has failed.
func (t *trials) failed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calmLocked()
	t.due.Store(monotonic.Now().Add(t.wait))
}

// calmLocked has trials come quickly, unless what one found to work has failed since.
func (t *trials) calmLocked() {
	if time.Since(t.fared) > calmAfter {
		t.wait = trialEach
	}
}

// begin runs one trial, if it is due and none runs.
func (t *trials) begin(trial func(context.Context) lesson) {
	if t.due.Load().Since() < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.due.Load().Since() >= 0 {
		t.beginLocked(trial)
	}
}

// hasten runs one now that there is a sign of recovery: a short time after the one before at
// the earliest, as signs may come all the time.
func (t *trials) hasten(trial func(context.Context) lesson) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calmLocked()
	t.again = t.busy
	t.beginLocked(trial)
}

func (t *trials) beginLocked(trial func(context.Context) lesson) {
	if t.busy || t.life.Err() != nil {
		return
	}
	t.busy = true
	t.due.Store(monotonic.Now().Add(time.Hour)) // nobody need look meanwhile
	pause := time.Until(t.ended.Add(signEach))
	t.running.Go(func() {
		for again := true; again; pause = signEach {
			select {
			case <-time.After(pause):
			case <-t.life.Done():
			}
			again = t.learn(trial(t.life))
		}
	})
}

// learn ends a trial. It is true where another is to follow.
func (t *trials) learn(lesson lesson) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = time.Now()
	wait := trialEach
	if lesson != nothingTried {
		t.wait = min(2*t.wait, maxTrialEach) // also where it works: it may not for long
		wait = t.wait
	}
	if lesson == doesWork {
		t.fared = t.ended
	}
	again = t.again && lesson != doesWork && t.life.Err() == nil
	t.again, t.busy = false, again
	if !again {
		t.due.Store(monotonic.At(t.ended).Add(wait))
	}
	return again
}

// beside runs what decides about a failure, until close.
func (t *trials) beside(do func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.life.Err() == nil {
		t.running.Go(func() { do(t.life) })
	}
}

// close returns when none runs.
func (t *trials) close() {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	t.running.Wait()
}

// recovering tells of a sign that what failed may work again: a watch of a cache was opened,
// a cache was filled, a floor was read after one could not be. It does not block.
func (c *chooser) recovering() {
	if c.present().failing {
		c.trials.hasten(c.trial)
	}
}

// tryAgain tries strategies that have failed when the time has come.
func (c *chooser) tryAgain() { c.trials.begin(c.trial) }

// trial tries strategies that have failed, the cheapest first, and moves to one that works.
func (c *chooser) trial(ctx context.Context) lesson {
	learnt := nothingTried
	for _, strategy := range c.failing() {
		switch c.try(ctx, strategy) {
		case doesWork:
			c.works(strategy)
			return doesWork
		case doesNotWork:
			learnt = doesNotWork
		}
	}
	return learnt
}

// try says whether a strategy brings a cache to a floor that is read now. It takes some
// that are filled and open, at random: one that is broken by itself says nothing of the
// strategy, whoever reads it.
func (c *chooser) try(ctx context.Context, strategy Strategy) lesson {
	nudges := c.backend.nudges
	if strategy == StrategyRequest && c.present().strategies[0] == StrategyNudge && nudges.idle() < calmAfter {
		return doesNotWork // it has been needed, and costs nothing where it is not
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	floor, err := c.backend.floors.Next(ctx)
	if err != nil {
		return nothingTried // an outage
	}
	caches := c.open(strategy)
	if len(caches) == 0 {
		return nothingTried
	}
	if strategy == StrategyNudge && nudges.write(ctx, floor.Revision) != nil {
		return doesNotWork
	}
	works := make(chan bool, len(caches))
	for _, reaches := range caches {
		c.trials.beside(func(context.Context) {
			works <- guard.Call(func() error { return reaches(ctx, floor.Revision) }) == nil
		})
	}
	for range caches {
		select {
		case reached := <-works:
			if reached {
				return doesWork
			}
		case <-c.trials.life.Done():
			return nothingTried
		}
	}
	return doesNotWork
}

// open returns how to bring some caches to a floor, of those that are filled and that the
// strategy can ask.
func (c *chooser) open(strategy Strategy) (some []func(context.Context, uint64) error) {
	c.backend.caches(func(feed *Feed, stream *progress.Stream) {
		switch {
		case len(some) == trialCaches || stream.Revision() == 0:
		case feed == nil:
			if strategy != StrategyRangeProof {
				some = append(some, stream.Wait)
			}
		case !feed.isOpen():
		case strategy != StrategyRangeProof:
			some = append(some, feed.try)
		case feed.resource.Prove != nil:
			some = append(some, feed.tryProof)
		}
	})
	return some
}

// isOpen reports whether the cache is filled, and its watch can be asked.
func (f *Feed) isOpen() bool {
	if f.epoch.Rewound() != nil || !f.mu.TryLock() {
		return false // the watch is being opened
	}
	w := f.watch
	f.mu.Unlock()
	if w == nil || w.inner == nil || !w.filled.Load() {
		return false
	}
	return w.kick.Load() != nil || !f.tapped.Load() && time.Since(w.opened) >= untappedAfter
}

// tryProof returns nil when ranges show that the cache is at target. One that is answered
// while an event is on its way shows nothing.
func (f *Feed) tryProof(ctx context.Context, target uint64) error {
	for {
		revision, err := f.proof.prove(ctx)
		switch {
		case err != nil:
			return err
		case revision >= target || f.stream.Revision() >= target:
			return nil
		}
		select {
		case <-time.After(trialAsks):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try returns nil when requests for progress are answered at or above target.
func (f *Feed) try(ctx context.Context, target uint64) error {
	e := f.expected.begin(target)
	for {
		_ = f.request.Advance(ctx, target)
		select {
		case <-e.met:
			return nil
		case <-time.After(trialAsks):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expectation is the answer that a trial waits for.
type expectation struct{ newest atomic.Pointer[expected] }

type expected struct {
	target uint64
	once   sync.Once
	met    chan struct{} // closed when an answer came at or above target
}

func (e *expectation) begin(target uint64) *expected {
	x := &expected{target: target, met: make(chan struct{})}
	e.newest.Store(x)
	return x
}

func (e *expectation) met(answer uint64) {
	if x := e.newest.Load(); x != nil && answer >= x.target {
		x.once.Do(func() { close(x.met) })
		e.newest.CompareAndSwap(x, nil)
	}
}
