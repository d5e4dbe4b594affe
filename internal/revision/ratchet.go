package revision

import "sync/atomic"

// Ratchet is a revision that only goes up. The zero Ratchet holds 0 and is
// ready for use, by any number of goroutines at once. It must not be copied.
type Ratchet struct {
	value atomic.Uint64
}

// Raise lifts the ratchet to revision and reports whether that moved it. A
// revision at or below the present one changes nothing.
func (r *Ratchet) Raise(revision uint64) bool {
	for {
		present := r.value.Load()
		if revision <= present {
			return false
		}
		if r.value.CompareAndSwap(present, revision) {
			return true
		}
	}
}

// Load returns the highest revision that the ratchet was raised to.
func (r *Ratchet) Load() uint64 {
	return r.value.Load()
}
