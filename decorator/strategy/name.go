// Package strategy names the ways in which a cache is brought to a floor, and chooses between
// them by what a backend was seen to do. Package decorator, which has them under names of its
// own, takes the ways; package probe looks at backends.
package strategy

import (
	"errors"
	"slices"
)

// Name is how a cache is brought to a floor.
type Name string

const (
	// Auto takes the cheapest that is sound on the backend, see Properties.Choose, and the
	// next one while that does not work. The default.
	Auto Name = "auto"
	// Request asks for progress on the cache's own watch.
	Request Name = "request"
	// Nudge is Request, and a write to the sentinel where the replies stand below the floor.
	// It needs a source of floors that can write.
	Nudge Name = "nudge"
	// RangeProof proves by a range of the backend that nothing was changed. A resource for
	// which no range can be read takes the next strategy under Auto.
	RangeProof Name = "range-proof"
	// Write writes an object among those of the resource and waits until the cache's watch
	// brings it. API servers without this strategy see the object, so Auto never takes it. It
	// needs a Feed.
	Write Name = "write"
	// Direct has no cache answer: LISTs are quorum lists, and Gets raw Gets. A Watch that
	// would have to be verified fails.
	Direct Name = "direct"
)

// All returns all strategies, Auto first.
func All() []Name { return slices.Clone(all) }

var all = []Name{Auto, Request, Nudge, RangeProof, Write, Direct}

var (
	// ErrRefused is in the error of Choose where no read of a backend can be verified.
	ErrRefused = errors.New("reads of this backend cannot be verified")
	// ErrUnreachable is in the error of whoever looked at a backend and saw nothing, as the
	// backend does not answer.
	ErrUnreachable = errors.New("the backend does not answer")
)
