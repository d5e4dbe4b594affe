package decorator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/progress"
)

// choice is how the caches of a Backend are brought to a floor at present.
type choice struct {
	strategies []Strategy // the first that a cache can is its own; at least one
	reason     string
	refused    error // no read can be verified; nil: they can
	failing    bool  // a cheaper one is sound, and does not work
	lossy      bool  // caches may lack what was before a revision that they have, so none is asked
	// pending is closed when it is known; nil: it is.
	pending <-chan struct{}
}

// first is the strategy of a cache, by what it has: its Feed may be nil.
func (c *choice) first(feed *Feed) Strategy {
	for _, s := range c.strategies {
		switch {
		case s == StrategyRangeProof && (feed == nil || feed.resource.Prove == nil), s == StrategyWrite && feed == nil:
		default:
			return s
		}
	}
	return StrategyDirect
}

// chooser decides between strategies.
type chooser struct {
	backend *Backend
	choice  atomic.Pointer[choice]
	trials  trials
	judging atomic.Bool // a failure is looked into

	mu       sync.Mutex
	seen     *Properties   // nil: nobody has looked
	pending  chan struct{} // nil: nobody looks for the first time
	final    bool          // what was seen is the last word
	proves   bool          // a resource has a Prover
	failures []Failure     // of strategies since, the oldest first
	shown    []Property    // what metrics say
}

// Failure is a strategy that does not work at present, although it is sound.
type Failure struct {
	Strategy Strategy  `json:"strategy"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
}

func newChooser(b *Backend) *chooser {
	c := &chooser{backend: b, trials: newTrials()}
	if b.cfg.probes() {
		c.pending = make(chan struct{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chooseLocked()
	return c
}

func (c *chooser) present() *choice { return c.choice.Load() }

// SetProperties tells what the backend was seen to do, and with StrategyAuto decides by it
// how caches are brought to a floor. What was found of strategies before is forgotten. A
// backend whose reads cannot be verified (see Properties.Choose) is refused: they fail
// with ErrRefused from now on, until it is called again. The Backend does not look by itself
// any more where it would only for want of a Config.Probe.
func (b *Backend) SetProperties(p Properties) {
	b.chooser.told(p, b.probesUnasked)
	if b.probesUnasked {
		b.prober.end()
	}
}

// told takes what the backend was seen to do. final means that it is the last word, whatever a
// probe that is under way finds.
func (c *chooser) told(p Properties, final bool) {
	c.mu.Lock()
	if c.final && !final {
		c.mu.Unlock()
		return
	}
	c.final = final
	c.seen, c.failures = &p, nil
	pending := c.pending
	c.pending = nil
	moved := c.chooseLocked()
	c.mu.Unlock()
	if pending != nil {
		close(pending)
	}
	c.follow(moved)
}

// provable notes that a resource has a Prover.
func (c *chooser) provable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proves = true
	c.chooseLocked() // nobody waits who would be served in another way
}

// found changes what was seen, by what has come to light since.
func (c *chooser) found(change func(*Properties)) {
	c.mu.Lock()
	seen := unprobed
	if c.seen != nil {
		seen = *c.seen
	}
	change(&seen)
	c.seen = &seen
	// What is not sound by that is not tried again either.
	sound, _, _ := seen.Choose(strategies...)
	c.failures = slices.DeleteFunc(c.failures, func(f Failure) bool { return !slices.Contains(sound, f.Strategy) })
	moved := c.chooseLocked()
	c.mu.Unlock()
	c.backend.prober.doubt("it was found to lack a property")
	c.follow(moved)
}

// unprobed is what is taken for granted of a backend that nobody has looked at.
var unprobed = Properties{LinearizableFloor: VerdictYes, OneRevisionSpace: VerdictYes, ProgressAnswered: VerdictYes, ProgressOrdered: VerdictYes, ProgressReaches: VerdictYes}

// failed is that a strategy does not work, while it is the present one and another is
// sound. target is what a cache could not be brought to: where another cache had an answer
// at or above it, it is not the backend; and where no floor can be read either, it is an
// outage and not the strategy, which would be found to have failed when all is well again.
func (c *chooser) failed(target uint64, reason string, failed ...Strategy) {
	elsewhere := false
	c.backend.caches(func(feed *Feed, _ *progress.Stream) {
		elsewhere = elsewhere || feed != nil && feed.epoch.Rewound() == nil && feed.reply.Load() >= target
	})
	if elsewhere || !c.judging.CompareAndSwap(false, true) {
		return
	}
	c.trials.beside(func(ctx context.Context) {
		defer c.judging.Store(false)
		ctx, cancel := context.WithTimeout(ctx, trialTime)
		defer cancel()
		_, err := c.backend.floors.Within(ctx, floorNow)
		if _, rewound := errors.AsType[*RewoundError](err); err == nil || rewound { // it answers
			c.fail(reason, failed...)
		}
	})
}

// floorNow is how old a floor may be that shows that there is no outage: readers who wait for
// a mute watch have had one read just now.
const floorNow = 100 * time.Millisecond

func (c *chooser) fail(reason string, failed ...Strategy) {
	c.mu.Lock()
	present := c.present()
	var moved bool
	if len(present.strategies) > 1 && slices.Contains(failed, present.strategies[0]) {
		for _, s := range failed {
			if slices.Contains(present.strategies, s) {
				c.failures = append(c.failures, Failure{s, reason, time.Now()})
			}
		}
		c.trials.failed()
		moved = c.chooseLocked()
		c.backend.prober.doubt(reason)
	}
	c.mu.Unlock()
	c.follow(moved)
}

// works notes that a strategy works again which had failed.
func (c *chooser) works(s Strategy) {
	c.mu.Lock()
	c.failures = slices.DeleteFunc(c.failures, func(f Failure) bool { return f.Strategy == s })
	moved := c.chooseLocked()
	c.mu.Unlock()
	c.follow(moved)
}

// failing are the strategies that have failed, the cheapest first.
func (c *chooser) failing() (all []Strategy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range strategies {
		if slices.ContainsFunc(c.failures, func(f Failure) bool { return f.Strategy == s }) {
			all = append(all, s)
		}
	}
	return all
}

// chooseLocked is true when it changed anything for caches.
func (c *chooser) chooseLocked() bool {
	before := c.choice.Load()
	now := c.decideLocked()
	c.choice.Store(now)
	c.showLocked()
	return before != nil && (!slices.Equal(before.strategies, now.strategies) || (before.refused == nil) != (now.refused == nil))
}

func (c *chooser) decideLocked() *choice {
	cfg := c.backend.cfg
	explicit := cfg.Strategy != StrategyAuto
	switch {
	case c.pending != nil:
		return &choice{strategies: []Strategy{StrategyRequest}, reason: "the backend is being looked at", pending: c.pending}
	case explicit && c.seen == nil:
		return &choice{strategies: []Strategy{cfg.Strategy}, reason: "set by Config.Strategy"}
	case explicit:
		// Of what could not be looked at an operator may know more.
		return &choice{strategies: []Strategy{cfg.Strategy}, reason: "set by Config.Strategy", refused: c.seen.Unfit(), lossy: c.lossyLocked()}
	case c.seen == nil:
		return &choice{strategies: []Strategy{StrategyRequest}, reason: `"auto", and nobody has looked at what the backend does`}
	}
	possible := []Strategy{StrategyRequest, StrategyDirect}
	if _, ok := cfg.Source.(Nudger); ok {
		possible = append(possible, StrategyNudge)
	}
	if c.proves {
		possible = append(possible, StrategyRangeProof)
	}
	for _, f := range c.failures {
		possible = slices.DeleteFunc(possible, func(s Strategy) bool { return s == f.Strategy })
	}
	sound, reason, err := c.seen.Choose(possible...)
	if err != nil {
		return &choice{strategies: []Strategy{StrategyDirect}, reason: err.Error(), refused: err}
	}
	for _, f := range c.failures {
		reason += fmt.Sprintf("; not %s: %s", f.Strategy, f.Reason)
	}
	return &choice{strategies: sound, reason: reason, failing: len(c.failures) > 0, lossy: c.lossyLocked()}
}

// lossyLocked is that events were seen to be lost. A strategy with a cache is taken then
// where an operator names it.
func (c *chooser) lossyLocked() bool {
	explicit := c.backend.cfg.Strategy != StrategyAuto && c.backend.cfg.Strategy != StrategyDirect
	return c.seen.EveryEventDelivered == VerdictNo && !explicit
}

// follow lets those who wait be served by the strategy that was moved to.
func (c *chooser) follow(moved bool) {
	if !moved {
		return
	}
	present := c.present()
	klog.InfoS("Caches are brought to a floor in another way", "backend", c.backend.cfg.Name, "strategy", present.strategies[0], "reason", present.reason)
	c.backend.caches(func(feed *Feed, stream *progress.Stream) {
		switch {
		case present.refused != nil:
			stream.Interrupt(present.refused)
		case present.first(feed) == StrategyDirect:
			stream.Interrupt(errDirect)
		default:
			stream.Rebound()
		}
	})
}

// showLocked tells metrics what was seen, and what was decided.
func (c *chooser) showLocked() {
	b := c.backend
	properties := Properties{}.All()
	if c.seen != nil {
		properties = c.seen.All()
	}
	strategy := Property{Name: "strategy", Verdict: Verdict(c.present().strategies[0])}
	if c.present().refused != nil {
		strategy.Verdict = "refused"
	}
	properties = append(properties, strategy)
	b.series.while(func() {
		for _, old := range c.shown {
			if !slices.Contains(properties, old) {
				b.metrics.BackendProperty.DeleteLabelValues(b.cfg.Name, old.Name, old.Verdict.String())
			}
		}
		for _, p := range properties {
			b.metrics.BackendProperty.WithLabelValues(b.cfg.Name, p.Name, p.Verdict.String()).Set(1)
		}
	})
	c.shown = properties
}

// ordered says that progress may be asked for although the strategy does without: it was
// seen not to overtake events, or no answer of a cache rests on it.
func (c *chooser) ordered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		return c.backend.cfg.Strategy == StrategyDirect
	}
	return c.seen.ProgressOrdered == VerdictYes
}

// nudgesHelp says that the backend is known to be one whose progress a write moves.
func (c *chooser) nudgesHelp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.backend.cfg.Strategy == StrategyNudge || c.seen != nil && c.seen.ProgressReaches != VerdictYes
}

// status is for people.
func (c *chooser) status() StrategyStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	present := c.present()
	s := StrategyStatus{Name: present.strategies[0], Reason: present.reason, Failures: slices.Clone(c.failures)}
	if present.refused != nil {
		s.Refused = present.refused.Error()
	}
	if c.seen != nil {
		s.Properties = new(*c.seen)
	}
	return s
}
