// Package monotonic has moments that fit an atomic integer and that no change of the
// machine's clock moves. Nanoseconds since 1970 fit as well, and when the clock is set back
// by an hour, what was to happen in a second happens in an hour.
package monotonic

import (
	"math"
	"sync/atomic"
	"time"
)

// start lies before what the clock of a testing/synctest bubble shows, which begins in the
// year 2000 and has no monotonic part.
var start = time.Now().Add(-50 * 365 * 24 * time.Hour)

// Moment is nanoseconds since start. The zero value is never.
type Moment int64

// Now returns the present moment.
func Now() Moment { return At(time.Now()) }

// At returns the moment of a time that time.Now returned in this process.
func At(t time.Time) Moment { return Moment(t.Sub(start)) }

// Add returns the moment that is so much later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Since returns how long ago it was: for ever where it never was.
func (m Moment) Since() time.Duration {
	if m == 0 {
		return math.MaxInt64
	}
	return time.Duration(Now() - m)
}

// Atomic is a Moment for many goroutines.
type Atomic struct{ ns atomic.Int64 }

// Load returns it.
func (a *Atomic) Load() Moment { return Moment(a.ns.Load()) }

// Store sets it.
func (a *Atomic) Store(m Moment) { a.ns.Store(int64(m)) }

// CompareAndSwap sets it to next if it is old.
func (a *Atomic) CompareAndSwap(old, next Moment) bool {
	return a.ns.CompareAndSwap(int64(old), int64(next))
}
