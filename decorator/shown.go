package decorator

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// Shown is what callers may reach of a raw storage: all of it, but for the lists under
// StrategyWrite, from which the object that is written is taken out (Stats goes on to count
// it). It is for whatever else is built on the storage of a cache: a CacheDelegator, a
// checker. Its watches are not for callers.
func (b *Backend) Shown(raw storage.Interface) storage.Interface {
	if _, already := raw.(shown); already || raw == nil || b.cfg.Strategy != StrategyWrite {
		return raw
	}
	return shown{raw, b}
}

type shown struct {
	inner   storage.Interface
	backend *Backend
}

var _ storage.Interface = shown{}

func (s shown) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if err := s.inner.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	return s.backend.hide(list)
}

// Unwrap is the raw storage.
func (s shown) Unwrap() storage.Interface { return s.inner }

func (s shown) Versioner() storage.Versioner { return s.inner.Versioner() }

func (s shown) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.inner.Create(ctx, key, obj, out, ttl)
}

func (s shown) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	return s.inner.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

func (s shown) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	return s.inner.Watch(ctx, key, opts)
}

func (s shown) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	return s.inner.Get(ctx, key, opts, out)
}

func (s shown) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	return s.inner.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

func (s shown) Stats(ctx context.Context) (storage.Stats, error) { return s.inner.Stats(ctx) }

func (s shown) ReadinessCheck() error { return s.inner.ReadinessCheck() }

func (s shown) RequestWatchProgress(ctx context.Context) error {
	return s.inner.RequestWatchProgress(ctx)
}

func (s shown) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return s.inner.GetCurrentResourceVersion(ctx)
}

func (s shown) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	return s.inner.EnableResourceSizeEstimation(keys)
}

func (s shown) CompactRevision() int64 { return s.inner.CompactRevision() }
