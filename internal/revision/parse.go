// Package revision holds what every other package needs to handle a backend's
// revisions: reading their text form, and the one type that only goes up.
//
// A revision is a uint64. Zero is no revision: it lies below every real one,
// and it is never a floor.
package revision

import (
	"fmt"
	"strconv"
)

// Parse reads the text form of a revision, a resourceVersion: decimal digits
// and nothing else (no sign, no space, no underscore, at most 64 bits).
//
// The empty text (unset) and "0" (any) are both read as 0, which is no
// revision. Where unset and any mean different things, as in the options of a
// request, look at the text first.
//
// Leading zeros are let through. The storages below read a resourceVersion
// with strconv.ParseUint, and must not understand a text that is refused here:
// such a request would be passed on to them and answered unverified.
func Parse(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("revision: %q is no resourceVersion, which is a decimal number of at most 64 bits: %w", text, err)
	}
	return revision, nil
}

// Format writes a revision in its text form, the one that Parse reads.
func Format(revision uint64) string {
	return strconv.FormatUint(revision, 10)
}
