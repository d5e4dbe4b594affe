package freshness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// probeEach is the least time between two probes. A shorter one would load a backend
	// that struggles, a longer one refuses callers for longer after its return. It is also
	// how long a read may take while the breaker is open, lest one that is lost on the way
	// hide the return.
	probeEach = time.Second
	// patientRead is the number of those reads of which one may take all of
	// Config.Timeout: the source may have come back slower than probeEach.
	patientRead = 10
	// probeGrace is how long after a probe was sent callers wait for what becomes of it:
	// some round trips, so that a source which is back, or had lost but one read, refuses
	// nobody.
	probeGrace = 100 * time.Millisecond
	// maxRetryAfter bounds OutageError.RetryAfter: longer, and clients would notice the
	// source's return so much later than the server does.
	maxRetryAfter = 10 * time.Second
)

// errOut is the cause of the end of a read that was sent while the breaker was open.
var errOut = fmt.Errorf("%w: the source is out", ErrTimeout)

// OutageError is what callers get at once, and cost nothing, while the source is out: see
// Config.FailFast.
type OutageError struct {
	// Since is when the first read was sent that failed.
	Since time.Time
	// RetryAfter is when to come again: a second at first, twice as long after each
	// further read that failed, at most ten seconds.
	RetryAfter time.Duration
	// Err is how the newest read failed.
	Err error
}

// Error tells since when, and why.
func (e *OutageError) Error() string {
	return fmt.Sprintf("freshness: no floor could be read since %s: %v", e.Since.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns how the newest read failed.
func (e *OutageError) Unwrap() error { return e.Err }

// outage is a circuit breaker. It is closed while floors are read. When reads have failed for
// Config.FailFast it opens, and callers are refused; then one probe at a time, a read that
// nobody waits for, finds out whether the source is back, which closes it.
//
//	closed --a read fails, FailFast after the first was sent--> open
//	open   --any read is answered--> closed
//
// A probe is begun by the caller who finds that it is time for one, and by Doubt, as
// connections are made again when a backend is back.
type outage struct {
	after   time.Duration // Config.FailFast
	open    atomic.Bool   // set under mu
	failing atomic.Bool   // a read has failed since the last floor; set under mu
	refused atomic.Uint64 // callers who got no floor since the last

	mu      sync.Mutex
	since   time.Time // when the first read that failed since the last floor was sent
	err     error     // of the newest that failed
	told    bool      // Hooks.Outage was called
	probe   *probe    // in flight; nil: none
	probed  time.Time // when the newest probe began; zero: none has since it opened
	reads   int       // since it opened
	failed  int       // probes since it opened
	again   bool      // another is to follow the one in flight at once
	closed  bool
	running sync.WaitGroup // probes
}

// probe is a read that nobody waits for.
type probe struct {
	began  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// failed tells of a read that failed, and reports whether callers are refused now.
func (f *Floors) failed(sent time.Time, err error) bool {
	o := &f.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing.Load() {
		o.since = sent
		o.failing.Store(true)
	}
	o.err = err
	switch {
	case o.open.Load():
		f.tellLocked()
	// Reads are ended up to a 64th too soon.
	case o.after > 0 && time.Since(o.since) >= o.after-o.after/32:
		o.probed, o.reads, o.failed, o.told = time.Time{}, 0, 0, false
		o.open.Store(true)
	}
	return o.open.Load()
}

// tellLocked tells of the outage, once. Not when it opens: that may have been a single read
// which was slow, and nobody was refused for it.
func (f *Floors) tellLocked() {
	if o := &f.outage; !o.told {
		o.told = true
		f.hooks.Outage(o.errorLocked())
	}
}

func (o *outage) errorLocked() *OutageError {
	retry := min(time.Second<<min(max(o.failed-1, 0), 10), maxRetryAfter)
	return &OutageError{Since: o.since, RetryAfter: retry, Err: o.err}
}

// answered tells of a read that the source answered.
func (f *Floors) answered() {
	o := &f.outage
	if o.refused.Load() == 0 && !o.failing.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	refused := o.refused.Swap(0)
	if o.open.Swap(false) && o.told {
		f.hooks.Recovered(time.Since(o.since), refused)
	}
	o.failing.Store(false)
}

// gotNone counts a caller who got no floor, and returns err.
func (f *Floors) gotNone(err error) error {
	if !errors.Is(err, context.Canceled) {
		f.outage.refused.Add(1)
	}
	return err
}

// refuse returns why the caller gets no floor, or nil where the source is back. Mostly
// that is at once; it waits for a probe that was just sent.
func (f *Floors) refuse(ctx context.Context) error {
	if p := f.probing(false); p != nil {
		if grace := time.Until(p.began.Add(probeGrace)); grace > 0 {
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-p.done:
			case <-timer.C:
			case <-ctx.Done():
				return nil // a read would not be sent, and its error says this
			}
		}
	}
	o := &f.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open.Load() || o.closed {
		return nil
	}
	f.tellLocked()
	return o.errorLocked()
}

// failure is how the newest read failed, for a caller of that.
func (f *Floors) failure() error {
	o := &f.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open.Load() {
		return noFloor(o.err) // another was answered since
	}
	return o.errorLocked()
}

// bounded returns the context of a read that is sent now.
func (f *Floors) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	o := &f.outage
	if !o.open.Load() {
		return ctx, func() {}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reads++; o.reads%patientRead == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, probeEach, errOut)
}

func noFloor(err error) error { return fmt.Errorf("freshness: no floor could be read: %w", err) }

// probing returns the probe in flight, and begins one where it is time, or now says so.
func (f *Floors) probing(now bool) *probe {
	o := &f.outage
	if !o.open.Load() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.open.Load() || o.closed:
		return nil
	case o.probe != nil:
		if now && time.Since(o.probe.began) > probeGrace {
			o.probe.cancel(errOut) // it may be lost with the connection that it was sent by
		}
		o.again = o.again || now
		return o.probe
	case !now && time.Since(o.probed) < probeEach:
		return nil
	}
	o.probed, o.again = time.Now(), false
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &probe{began: o.probed, cancel: cancel, done: make(chan struct{})}
	o.probe = p
	o.running.Go(func() { f.sendProbe(ctx, p) })
	return p
}

func (f *Floors) sendProbe(ctx context.Context, p *probe) {
	defer p.cancel(nil)
	_, _ = f.reads.Do(ctx, nil) // read hears what comes of it
	o := &f.outage
	o.mu.Lock()
	o.probe = nil
	o.failed++
	again := o.again
	o.mu.Unlock()
	close(p.done)
	if again {
		f.probing(true)
	}
}

// stopProbes returns when none is in flight, nor will be. The reads have been closed.
func (o *outage) stopProbes() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.running.Wait()
}
