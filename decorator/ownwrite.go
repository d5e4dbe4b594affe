package decorator

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// A write of ours that was acknowledged tells where the backend's history is: no floor
// read from then on may be below it, and it is itself above what that history had been seen
// at before the write was sent. (It may be below what has been seen since: two writes under
// way are acknowledged in any order.) Where it is not, the history went back, and that has
// to be known before the caller hears of the write: reads at its revision would look for it
// in a cache that has passed that number in the history of before.

// ownWrite holds what was known before such a write was sent.
type ownWrite struct {
	store *Store
	seen  uint64 // before it was sent
	// began is the revision of the object that an update began with: who finds nothing to
	// change writes nothing, and answers with that.
	began uint64
}

func (s *Store) ownWrite() ownWrite { return ownWrite{store: s, seen: s.epoch.Seen()} }

// created checks the answer to a Create. It has the revision of the write, and one that is not
// above what was seen shows that the history went back; but kine answers with an older one
// where an object is created again after its deletion. The object itself tells which it was,
// and a floor decides where it does not.
func (w *ownWrite) created(ctx context.Context, key string, out runtime.Object, err error) {
	revision := w.revision(out, err)
	switch {
	case revision == 0:
	case revision > w.seen || w.storedAt(ctx, key, out) == revision:
		w.store.backend.floors.Wrote(w.store.epoch, w.seen, revision)
	default:
		w.store.lookAgain(ctx)
	}
}

// storedAt returns the revision at which the backend has the object that was created, or 0
// where it cannot tell.
func (w *ownWrite) storedAt(ctx context.Context, key string, created runtime.Object) uint64 {
	if w.store.resource.Raw == nil {
		return 0
	}
	stored := created.DeepCopyObject()
	return w.revision(stored, w.store.resource.Raw.Get(ctx, key, storage.GetOptions{}, stored))
}

// changed checks the answer to an update or a Delete: it has the revision of the write, or
// one that proves nothing, as a storage may answer with the object as it was. Where
// it is not above what was seen that is a reason to look: a floor decides.
func (w *ownWrite) changed(ctx context.Context, out runtime.Object, err error) {
	revision := w.revision(out, err)
	switch {
	case revision == 0 || revision == w.began:
	case revision > w.seen:
		w.store.epoch.Saw(revision)
	default:
		w.store.lookAgain(ctx)
	}
}

// lookAgain reads a floor, which decides whether the history went back.
func (s *Store) lookAgain(ctx context.Context) {
	s.backend.floors.Doubt() // it is to prove the contrary, where a witness can
	_, _ = s.backend.floors.Next(ctx)
}

// listRaw makes a quorum list of the raw storage. As with a write, one of the newest data that
// is below what was seen before it was sent is a reason to look, before its caller hears of it:
// under StrategyDirect hardly anybody reads floors.
func (s *Store) listRaw(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	seen := s.epoch.Seen()
	err := s.resource.Raw.GetList(ctx, key, opts, list)
	if err != nil || opts.ResourceVersion != "" || opts.Predicate.Continue != "" || s.backend.Mode() == ModeOff {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	revision, err := s.router.versioner.ParseResourceVersion(accessor.GetResourceVersion())
	switch {
	case err != nil || revision == 0: // the storage's own affair
	case revision >= seen:
		s.epoch.Saw(revision)
	default:
		s.lookAgain(ctx)
	}
	return nil
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

// noting returns an update that also notes the revision it begins with.
func (w *ownWrite) noting(update storage.UpdateFunc) storage.UpdateFunc {
	return func(input runtime.Object, is storage.ResponseMeta) (runtime.Object, *uint64, error) {
		w.began = is.ResourceVersion
		return update(input, is)
	}
}
