package freshness

import (
	"context"
	"fmt"
	"time"
)

// DefaultTimeout is the Timeout of a zero Config. It is as long as a request
// may wait for freshness in all by default: a shorter one fails reads that the
// callers would still wait for, while a longer one only keeps a read that
// nobody waits for (and a lost connection holds up the next read until it
// ends).
const DefaultTimeout = 3 * time.Second

// Config configures Floors. The zero Config is valid.
type Config struct {
	// Timeout ends a shared read, counted from when it is sent. The contexts of
	// its callers do not. Zero means DefaultTimeout.
	Timeout time.Duration
	// Patience is the longest that a caller of Next waits (and at most 1/64 less than
	// that), beside what its context says: it costs a crowd one timer and not one
	// each. Zero means no end but that of the context.
	Patience time.Duration
	// FailFast is how long reads have to fail, counted from when the first of them was
	// sent, until callers are refused at once with an *OutageError. Then a read is sent
	// each second at most, one at a time, while callers come or the Floors are Doubted,
	// and the first that is answered ends it. Zero means never: each caller finds out
	// for itself.
	FailFast time.Duration
	// Hooks tell what happens. The zero Hooks tell nobody.
	Hooks Hooks
}

// withDefaults checks the Config and fills in what is zero.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Timeout < 0:
		return c, fmt.Errorf("freshness: Config.Timeout is %v: set a positive duration, or 0 for %v", c.Timeout, DefaultTimeout)
	case c.Patience < 0:
		return c, fmt.Errorf("freshness: Config.Patience is %v: set a positive duration, or 0 for none", c.Patience)
	case c.FailFast < 0:
		return c, fmt.Errorf("freshness: Config.FailFast is %v: set a positive duration, or 0 for never", c.FailFast)
	case c.Timeout == 0:
		c.Timeout = DefaultTimeout
	}
	if c.Hooks.Read == nil {
		c.Hooks.Read = func(ReadInfo) {}
	}
	if c.Hooks.Trace == nil {
		c.Hooks.Trace = func(ctx context.Context, _ []Companion) (context.Context, func(ReadInfo)) {
			return ctx, func(ReadInfo) {}
		}
	}
	if c.Hooks.Rewound == nil {
		c.Hooks.Rewound = func(*RewoundError) {}
	}
	if c.Hooks.Outage == nil {
		c.Hooks.Outage = func(*OutageError) {}
	}
	if c.Hooks.Recovered == nil {
		c.Hooks.Recovered = func(time.Duration, uint64) {}
	}
	return c, nil
}

// Hooks are called while those who wait for a read are held: they must return
// soon, and must not call the Floors. Each may be nil.
type Hooks struct {
	// Read is called after each read of the source, by one goroutine at a time,
	// before the callers get its answer.
	Read func(ReadInfo)
	// Trace is called when a read is sent of which callers are traced, with their
	// Companions. It returns the context of the read, and what is called after Read.
	Trace func(ctx context.Context, callers []Companion) (context.Context, func(ReadInfo))
	// Rewound is called when the backend is seen to have gone back, once for each
	// Epoch, before the Read of the same reading; or by Wrote.
	Rewound func(*RewoundError)
	// Outage is called once in each outage, when it is more than a single read that
	// failed: callers are refused. Recovered is called once when that ends, with the time
	// since the first read that failed was sent, and how many callers got no floor in it.
	Outage    func(*OutageError)
	Recovered func(lasted time.Duration, callers uint64)
}

// ReadInfo tells about one read of the source.
type ReadInfo struct {
	// Outcome says how it ended.
	Outcome Outcome
	// Revision is what was read, and only OutcomeOK makes it a floor.
	Revision uint64
	// Duration is the time from when the read was sent to its answer.
	Duration time.Duration
	// Callers is the number of callers that shared it when it was sent.
	Callers int
	// Err is why the outcome is not OutcomeOK, else nil.
	Err error
}

// Outcome says how a read of the source ended; its text is a metric's label.
type Outcome string

// The outcomes of a read.
const (
	// OutcomeOK is a floor.
	OutcomeOK Outcome = "ok"
	// OutcomeError is an error of the source, its deadline included.
	OutcomeError Outcome = "error"
	// OutcomeCanceled is a read whose callers had all gone, or that Close ended:
	// no failure of the backend.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeRewound is a reading that shows that the history went back.
	OutcomeRewound Outcome = "rewound"
	// OutcomeBad is an answer that is no revision.
	OutcomeBad Outcome = "bad"
)
