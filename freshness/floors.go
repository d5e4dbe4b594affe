package freshness

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rvfloor/rvfloor/internal/joinnext"
)

// Floors reads floors from one backend for any number of callers: at most one
// read is in flight, and those who arrive meanwhile share the next. A caller
// never gets a floor from a read that was sent before it arrived.
//
// There is one Floors for each revision space. Two backends must not share one.
type Floors struct {
	source Source
	hooks  Hooks
	wall   func() time.Time // a seam: tests let the wall clock jump
	reads  *joinnext.Group[Floor]

	epoch  atomic.Pointer[Epoch]
	doubts atomic.Uint64 // see Doubt
	proved atomic.Uint64 // the doubts before the newest floor's read was sent; set by read
	closed atomic.Bool

	timeout, patience time.Duration // of a read, and of a caller
	outage            outage
}

// NewFloors returns Floors that read src, until Close. Its error names the
// argument or the field of cfg that is wrong.
func NewFloors(src Source, cfg Config) (*Floors, error) {
	if f, ok := src.(SourceFunc); src == nil || ok && f == nil {
		return nil, errors.New("freshness: NewFloors: src is nil: pass the Source that reads the backend's revision, such as NewSentinel")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Floors{source: src, hooks: cfg.Hooks, wall: wallClock, timeout: cfg.Timeout, patience: cfg.Patience}
	f.outage.after = cfg.FailFast
	f.epoch.Store(newEpoch())
	_, prompt := src.(PromptSource)
	f.reads = joinnext.New(f.read, joinnext.Config{Timeout: cfg.Timeout, Patience: cfg.Patience, Inline: prompt})
	return f, nil
}

// Next returns a floor from a read that is sent after Next was called: every
// write acknowledged before the call is at or below it.
//
// The end of ctx returns its error and cause at once and disturbs nobody else.
// When a shared read fails its callers join the next one, once, and fail with
// the error of that. The errors: *RewoundError, from the first time on that the
// backend's history was seen to go back; ErrClosed; one that wraps the source's
// error, ErrZeroRevision or ErrTimeout, and is an *OutageError while callers are
// refused. Renew ends the first of them.
func (f *Floors) Next(ctx context.Context) (Floor, error) { return f.NextBeside(ctx, nil) }

// Companion is what a caller has to send along with a read of the floor. Send is
// called once for each read, that of the first caller who has one, at the moment when
// the read is sent: on any goroutine, and also when that caller's NextBeside has
// returned with the error of its context. It must not block.
type Companion = joinnext.Companion

// Traced is a Companion whose caller may be traced: see Hooks.Trace.
type Traced = joinnext.Traced

// NextBeside is Next for a caller with a Companion, which may be nil.
func (f *Floors) NextBeside(ctx context.Context, beside Companion) (Floor, error) {
	epoch := f.Epoch()
	if rewound := epoch.Rewound(); rewound != nil {
		return Floor{}, rewound
	}
	if f.outage.open.Load() {
		if f.patience > 0 { // which the wait for a probe is a part of
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, f.patience, ErrTimeout)
			defer cancel()
		}
		if err := f.refuse(ctx); err != nil {
			return Floor{}, f.gotNone(err)
		}
	}
	result, err := f.reads.Do(ctx, beside)
	switch {
	case err == nil:
	case errors.Is(err, joinnext.ErrClosed):
		return Floor{}, ErrClosed
	case ctx.Err() != nil:
		return Floor{}, f.gotNone(err)
	default:
		return Floor{}, f.gotNone(noFloor(err))
	}
	// Also where this read was good: what was read before a rewind became known
	// is no floor of what comes after, nor the reverse.
	if rewound := epoch.Rewound(); rewound != nil {
		return Floor{}, rewound
	}
	if result.Value.Revision == 0 {
		return Floor{}, f.gotNone(f.failure())
	}
	return result.Value, nil
}

// Within returns the newest floor, if its read was sent at most age ago, by the
// monotonic and by the wall clock, and nothing is Doubted: every write acknowledged longer than age ago
// is at or below it. Else, and where age is zero or less, it does what Next
// does. Its errors are those of Next.
func (f *Floors) Within(ctx context.Context, age time.Duration) (Floor, error) {
	return f.WithinBeside(ctx, age, nil)
}

// WithinBeside is Within for a caller with a Companion, which may be nil, and goes
// along only where a read is sent.
func (f *Floors) WithinBeside(ctx context.Context, age time.Duration, beside Companion) (Floor, error) {
	epoch := f.Epoch()
	last := epoch.last.load()
	if last.Revision == 0 || age <= 0 || last.age(f.wall()) > age || f.Doubted() {
		return f.NextBeside(ctx, beside)
	}
	switch {
	case f.closed.Load():
		return Floor{}, ErrClosed
	case ctx.Err() != nil || epoch.Rewound() != nil:
		return f.Next(ctx) // which fails, and says why
	}
	return last, nil
}

// Saw is Epoch.Saw of the present one.
func (f *Floors) Saw(revision uint64) { f.Epoch().Saw(revision) }

// Last returns the newest floor that was read in this epoch, and false before the
// first. It is for metrics and debug pages: no answer may be built on it, as it has no
// age, and is kept after a rewind until Renew.
func (f *Floors) Last() (Floor, bool) {
	last := f.Epoch().last.load()
	return last, last.Revision != 0
}

// Rewound returns why no more floors are read, or nil while they are. Once set
// it stays until Renew: what was cached from the old history must go first.
func (f *Floors) Rewound() *RewoundError { return f.Epoch().Rewound() }

// Close ends the read in flight, lets every caller return ErrClosed, now and
// later, and returns when its goroutine has ended. It may be called more than
// once, and always returns nil. It must not be called from a hook or the source.
func (f *Floors) Close() error {
	f.closed.Store(true)
	f.reads.Close()
	f.outage.stopProbes()
	return nil
}
