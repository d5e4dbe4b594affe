package freshness

import (
	"errors"
	"fmt"

	"github.com/rvfloor/rvfloor/internal/joinnext"
)

var (
	// ErrZeroRevision is what callers get when the source answers revision 0
	// without an error. Taken for a floor it would mean "anything will do".
	ErrZeroRevision = errors.New("the source answered revision 0, which is no floor")

	// ErrClosed is what callers get from Floors that were closed.
	ErrClosed = errors.New("freshness: closed")

	// ErrTimeout is in the error that callers get when the shared read took
	// longer than Config.Timeout. It wraps context.DeadlineExceeded, which
	// therefore does not tell whose deadline it was: the caller's context does.
	ErrTimeout = joinnext.ErrTimeout
)

// RewoundError says that the history of the backend went back: it was restored
// from a snapshot, or it is another backend than before, or its source is not
// linearizable. What was cached may never have existed in the new history.
//
// It is shared between callers and must not be changed.
type RewoundError struct {
	// Seen is the highest revision seen before the read was sent, or the write.
	Seen uint64
	// Read is the revision that was read, or at which a write was acknowledged.
	Read uint64
	// Evidence says what showed it: see EvidenceRevision and the others.
	Evidence string
}

// Error tells what was seen and read.
func (e *RewoundError) Error() string {
	return fmt.Sprintf("freshness: the backend's history went back (evidence: %s): read revision %d, highest seen before %d; it was restored, or its reads are not linearizable", e.Evidence, e.Read, e.Seen)
}
