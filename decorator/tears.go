package decorator

import (
	"slices"
	"sync"

	"github.com/rvfloor/rvfloor/internal/revision"
)

// tears remembers the revisions that a cache was seen to apply in more than one
// step: it takes the number of such a revision with its first event, so what it
// answers under that number may be part of it.
//
// A reader notes what is applied before it asks the cache (applied means whole),
// and asks tears afterwards about the number it was answered with. So the feed
// never waits for a reader, and a reader only asks again in the rare case.
type tears struct {
	last revision.Ratchet // newest torn revision begun

	mu     sync.Mutex
	recent [64]uint64 // a ring, so that one torn revision does not suspect its neighbours
	begun  int
}

// begin is called before the first event of a revision goes to the cache.
func (t *tears) begin(revision uint64) {
	t.mu.Lock()
	t.recent[t.begun%len(t.recent)] = revision
	t.begun++
	t.mu.Unlock()
	t.last.Raise(revision)
}

// torn says whether an answer numbered revision may be part of it, when everything
// up to applied was whole before the cache was asked.
func (t *tears) torn(applied, revision uint64) bool {
	return revision > applied && t.last.Load() > applied && t.suspect(revision)
}

// suspect says whether a revision may have been applied in more than one step, however
// long ago.
func (t *tears) suspect(revision uint64) bool {
	if t.last.Load() < revision {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun <= len(t.recent) {
		return slices.Contains(t.recent[:t.begun], revision)
	}
	return slices.Contains(t.recent[:], revision) || revision < slices.Min(t.recent[:])
}

// since says which torn revision may have been under way at any time since
// everything up to applied was whole; 0 for none.
func (t *tears) since(applied uint64) uint64 {
	if last := t.last.Load(); last > applied {
		return last
	}
	return 0
}
