package freshness

import (
	"sync/atomic"

	"github.com/rvfloor/rvfloor/internal/revision"
)

// Epoch is one history of a backend, as Floors has seen it: from Floors' beginning, or
// the end of the epoch before, until the history is seen to have gone back. Whoever
// caches data keeps the Epoch that the data are from: that it has ended is why they
// must not be read any more, also when a later one has begun.
type Epoch struct {
	seen    revision.Ratchet
	last    newest
	rewound atomic.Pointer[RewoundError]
	ended   chan struct{} // closed when rewound is set
	known   known         // owned by Floors.read
}

func newEpoch() *Epoch {
	return &Epoch{ended: make(chan struct{}), known: known{terms: map[uint64]uint64{}}}
}

// Saw tells that this history was seen at revision: by an acknowledged write of our
// own, or by what a cache has applied. A read that is sent from now on must not
// answer below it. A revision that is not of this history makes the next read look
// like a rewind. Zero changes nothing, and so does all that an ended epoch is told.
func (e *Epoch) Saw(revision uint64) { e.seen.Raise(revision) }

// Seen returns the highest revision that this history was seen at, for Wrote.
func (e *Epoch) Seen() uint64 { return e.seen.Load() }

// Rewound returns why the epoch has ended, or nil while it lasts.
func (e *Epoch) Rewound() *RewoundError { return e.rewound.Load() }

// Ended is closed when Rewound has something to return.
func (e *Epoch) Ended() <-chan struct{} { return e.ended }

// end ends an epoch that has not ended yet.
func (f *Floors) end(e *Epoch, why *RewoundError) {
	if e.rewound.CompareAndSwap(nil, why) {
		close(e.ended)
		f.hooks.Rewound(why)
	}
}

// Wrote is e.Saw for a write that made its revision, and was sent when e was Seen at
// before. At or below that the backend's history went back, and e has ended when Wrote
// returns.
func (f *Floors) Wrote(e *Epoch, before, revision uint64) {
	if revision > before {
		e.Saw(revision)
		return
	}
	f.end(e, &RewoundError{Seen: before, Read: revision, Evidence: EvidenceRevision})
}

// Epoch is the present one. It may have ended: see Renew.
func (f *Floors) Epoch() *Epoch { return f.epoch.Load() }

// Renew begins another epoch if old, which has ended, is the present one: floors are
// read again, and nothing that was known of the old history holds for the new one. It
// is for those who have stopped to answer from what is of the old one.
func (f *Floors) Renew(old *Epoch) {
	if old.Rewound() != nil {
		f.epoch.CompareAndSwap(old, newEpoch())
	}
}

// Doubt tells that the connection to the backend was lost, or made: what answers now
// may have another history than what answered before. The next reading is a floor only
// if it proves the contrary, where there is a witness to prove it. While callers are
// refused it sends a read at once: the backend may be back.
func (f *Floors) Doubt() {
	f.doubts.Add(1)
	f.probing(true)
}

// Doubted tells that no floor was read since the last Doubt, or since a read failed:
// what is cached may be of another history than the backend's.
func (f *Floors) Doubted() bool { return f.doubts.Load() != f.proved.Load() }
