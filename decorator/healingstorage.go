package decorator

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

var _ storage.Interface = (*Healing)(nil)

// Unwrap is the present Store.
func (h *Healing) Unwrap() storage.Interface { return h.Store() }

// Get is the Store's.
func (h *Healing) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	g := h.enter()
	defer g.leave()
	return g.Store.Get(ctx, key, opts, out)
}

// GetList is the Store's.
func (h *Healing) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	g := h.enter()
	defer g.leave()
	return g.Store.GetList(ctx, key, opts, list)
}

// Watch is the Store's, and ends when the Store is lost. From a revision that may have
// been lost with an earlier one it is refused with 410.
func (h *Healing) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	g := h.enter()
	defer g.leave()
	if h.lost(g.Store, opts) {
		return watchFailure(errLostHistory())
	}
	w, err := g.Store.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return g.watches.add(w), nil
}

// Create is the Store's.
func (h *Healing) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	g := h.enter()
	defer g.leave()
	return g.Store.Create(ctx, key, obj, out, ttl)
}

// Delete is the Store's.
func (h *Healing) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	g := h.enter()
	defer g.leave()
	return g.Store.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

// GuaranteedUpdate is the Store's.
func (h *Healing) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	g := h.enter()
	defer g.leave()
	return g.Store.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

// Stats is the Store's.
func (h *Healing) Stats(ctx context.Context) (storage.Stats, error) {
	g := h.enter()
	defer g.leave()
	return g.Store.Stats(ctx)
}

// Versioner is the Store's.
func (h *Healing) Versioner() storage.Versioner { return h.Store().Versioner() }

// ReadinessCheck is the Store's.
func (h *Healing) ReadinessCheck() error { return h.Store().ReadinessCheck() }

// RequestWatchProgress is the Store's.
func (h *Healing) RequestWatchProgress(ctx context.Context) error {
	g := h.enter()
	defer g.leave()
	return g.Store.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion is the Store's.
func (h *Healing) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	g := h.enter()
	defer g.leave()
	return g.Store.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation is the present Store's. Its cache has called it.
func (h *Healing) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	return h.Store().EnableResourceSizeEstimation(keys)
}

// CompactRevision is the Store's.
func (h *Healing) CompactRevision() int64 { return h.Store().CompactRevision() }

// lost is true for a watch that goes on from a revision that may be.
func (h *Healing) lost(s *Store, opts storage.ListOptions) bool {
	resumes := h.resumes.Load()
	if resumes == nil || s.backend.Mode() != ModeVerify || opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return false
	}
	revision, err := s.router.versioner.ParseResourceVersion(opts.ResourceVersion)
	return err == nil && revision > 0 && !resumes.allows(revision)
}
