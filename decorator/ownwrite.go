package decorator

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// A write of ours that was acknowledged tells where the backend's history is: no floor
// read from then on may be below it, and it is itself above what that history had been seen
// at before the write was sent. (It may be below what has been seen since: two writes under
// way are acknowledged in any order.) Where it is not, the history went back, and that has
// to be known before the caller hears of the write: reads at its revision would look for it
// in a cache that has passed that number in the history of before.

// ownWrite is one of them.
type ownWrite struct {
	store *Store
	seen  uint64 // before it was sent
	// began is the revision of the object that an update began with: who finds nothing to
	// change writes nothing, and answers with that.
	began uint64
}

func (s *Store) ownWrite() ownWrite { return ownWrite{store: s, seen: s.epoch.Seen()} }

// created takes what a Create answered with, always a revision of its own.
func (w *ownWrite) created(out runtime.Object, err error) {
	if revision := w.revision(out, err); revision > 0 {
		w.store.backend.floors.Wrote(w.store.epoch, w.seen, revision)
	}
}

// changed takes what an update or a Delete answered with: the revision of the write, or
// one that is no sign of anything, as a storage may answer with the object as it was. Where
// it is not above what was seen that is a reason to look: a floor decides.
func (w *ownWrite) changed(ctx context.Context, out runtime.Object, err error) {
	revision := w.revision(out, err)
	switch {
	case revision == 0 || revision == w.began:
	case revision > w.seen:
		w.store.epoch.Saw(revision)
	default:
		floors := w.store.backend.floors
		floors.Doubt() // it is to prove the contrary, where a witness can
		_, _ = floors.Next(ctx)
	}
}

// revision returns that of an answer, or 0 where there is none, or nobody is to look.
func (w *ownWrite) revision(out runtime.Object, err error) uint64 {
	if err != nil || out == nil || w.store.backend.Mode() == ModeOff {
		return 0
	}
	revision, err := w.store.router.versioner.ObjectResourceVersion(out)
	if err != nil {
		return 0
	}
	return revision
}

// noting returns update, which also notes what it begins with.
func (w *ownWrite) noting(update storage.UpdateFunc) storage.UpdateFunc {
	return func(input runtime.Object, is storage.ResponseMeta) (runtime.Object, *uint64, error) {
		w.began = is.ResourceVersion
		return update(input, is)
	}
}
