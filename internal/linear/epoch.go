package linear

import (
	"errors"
	"fmt"
	"slices"
)

// epoch is one history of the backend: a restore begins another. The windows of two
// epochs in succession overlap while the restore is under way, and an operation that
// ran then may belong to either.
type epoch struct {
	truth       *truth
	base        uint64 // the revision that was restored; below it lies the epoch before
	from, until int64  // when its answers may be given, both included
}

// Restoring says that the backend is going to be put back to an older state. What is
// answered from now on may be of the history before or after, until Restored.
func (r *Run) Restoring() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restoring = r.now()
}

// Restored says that the backend has been put back to its state at a revision, and
// that operations which begin from now on must see the history that goes on from
// there. All Truth of the history before must have been told; what is told from now
// on is the new one's, above the revision. The error says what cannot be so.
func (r *Run) Restored(revision uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.inForceLocked()
	switch {
	case r.restoring == 0:
		return errors.New("linear: Restored without Restoring")
	case revision > old.truth.last:
		return fmt.Errorf("linear: restored to revision %d, and the truth ends at %d", revision, old.truth.last)
	}
	old.until = r.now()
	r.epochs = append(r.epochs, &epoch{old.truth.fork(revision), revision, r.restoring, forever})
	r.restoring = 0
	r.judgeHeldLocked(false)
	return nil
}

func (r *Run) inForceLocked() *epoch { return r.epochs[len(r.epochs)-1] }

// epochsOf returns the epochs that the operation may belong to: one, unless it ran
// into a restore. Those before the first of them are past.
func (r *Run) epochsOf(o *op) (past, possible []*epoch) {
	first := slices.IndexFunc(r.epochs, func(e *epoch) bool { return e.until >= o.begin })
	last := first
	for last+1 < len(r.epochs) && r.epochs[last+1].from <= o.end {
		last++
	}
	return r.epochs[:first], r.epochs[first : last+1]
}

// belongsTo reports whether the operation is one of this epoch and of no other.
func (r *Run) belongsTo(o *op, e *epoch) bool {
	_, possible := r.epochsOf(o)
	return len(possible) == 1 && possible[0] == e
}

// fork returns a truth that goes on from the revision.
func (t *truth) fork(revision uint64) *truth {
	fork := newTruth(t.seed)
	for _, r := range t.revisions {
		if r.Revision <= revision {
			_ = fork.append(r) // in order, as they were
		}
	}
	fork.last = revision
	return fork
}
