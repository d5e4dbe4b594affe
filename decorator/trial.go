package decorator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
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
)

// trials are what is tried of strategies that failed, one at a time.
type trials struct {
	life context.Context // ends with close
	end  context.CancelFunc
	due  atomic.Int64 // when the next is, unix time in ns

	mu      sync.Mutex
	busy    bool // one runs
	running sync.WaitGroup
	wait    time.Duration // before the next
	fared   time.Time     // when the newest strategy had worked
}

func newTrials() trials {
	life, end := context.WithCancel(context.Background())
	return trials{life: life, end: end, wait: trialEach}
}

// failed is that a strategy has.
func (t *trials) failed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.fared) > calmAfter {
		t.wait = trialEach
	}
	t.due.Store(time.Now().Add(t.wait).UnixNano())
}

// begin runs one trial, if it is due and none runs. It is true for a strategy that works.
func (t *trials) begin(trial func(context.Context) bool) {
	due := t.due.Load()
	if now := time.Now().UnixNano(); now < due || !t.due.CompareAndSwap(due, now+int64(time.Hour)) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || t.life.Err() != nil {
		return
	}
	t.busy = true
	t.running.Go(func() {
		works := trial(t.life)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.busy = false
		if works {
			t.fared = time.Now()
		}
		t.wait = min(2*t.wait, maxTrialEach) // also where it works: it may not for long
		t.due.Store(time.Now().Add(t.wait).UnixNano())
	})
}

// close returns when none runs.
func (t *trials) close() {
	t.mu.Lock()
	t.end()
	t.mu.Unlock()
	t.running.Wait()
}

// tryAgain tries strategies that have failed with the cache of s, the cheapest first, and
// moves to one that works.
func (c *chooser) tryAgain(s *Store) {
	c.trials.begin(func(ctx context.Context) bool {
		for _, strategy := range c.failing() {
			if c.try(ctx, s, strategy) {
				c.works(strategy)
				return true
			}
		}
		return false
	})
}

// try says whether a strategy brings the cache of s to a floor that is read now.
func (c *chooser) try(ctx context.Context, s *Store, strategy Strategy) bool {
	nudges := c.backend.nudges
	if strategy == StrategyRequest && c.present().strategies[0] == StrategyNudge && nudges.idle() < calmAfter {
		return false // it has been needed, and costs nothing where it is not
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	floor, err := c.backend.floors.Next(ctx)
	if err != nil {
		return false
	}
	if strategy == StrategyNudge && nudges.write(ctx, floor.Revision) != nil {
		return false
	}
	switch {
	case s.pilot != nil:
		return s.stream.Wait(ctx, floor.Revision) == nil
	case strategy == StrategyRangeProof:
		return s.resource.Feed.tryProof(ctx, floor.Revision)
	}
	return s.resource.Feed.try(ctx, floor.Revision)
}

// tryProof says whether ranges show that the cache is at target. One that is answered
// while an event is on its way shows nothing.
func (f *Feed) tryProof(ctx context.Context, target uint64) bool {
	for {
		revision, err := f.proof.prove(ctx)
		switch {
		case err != nil:
			return false
		case revision >= target || f.stream.Revision() >= target:
			return true
		}
		select {
		case <-time.After(trialAsks):
		case <-ctx.Done():
			return false
		}
	}
}

// try says whether requests for progress are answered at or above target.
func (f *Feed) try(ctx context.Context, target uint64) bool {
	e := f.expected.begin(target)
	for {
		_ = f.request.Advance(ctx, target)
		select {
		case <-e.met:
			return true
		case <-time.After(trialAsks):
		case <-ctx.Done():
			return false
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
