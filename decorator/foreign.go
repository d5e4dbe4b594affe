package decorator

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// Reads of a key that lacks Resource.Prefix: a caller's mistake, which the storage refuses, or
// one in the Resource, where it does not. Then what is known of the cache is not about such a
// key, and the raw storage answers, as under StrategyDirect.

var errForeign = errors.New(string(misfitPrefix))

// foreignGet answers a Get.
func (s *Store) foreignGet(ctx context.Context, r route, key string, opts storage.GetOptions, out runtime.Object) error {
	read := s.begin(ctx, verbGet, r)
	if s.resource.Raw == nil {
		err := s.inner.Get(ctx, key, opts, out)
		if err != nil && !storage.IsNotFound(err) {
			return read.end(err, outcomeOfInner(err))
		}
		_ = runtime.SetZeroValue(out)
		return read.unanswered(key)
	}
	if r.kind != routeLeast {
		opts.ResourceVersion = ""
	}
	err := read.call(spanDirect, func(ctx context.Context) error { return s.resource.Raw.Get(ctx, key, opts, out) })
	if err == nil || storage.IsNotFound(err) {
		s.wiring.say(s.observe, misfitPrefix, "key", key, "prefix", s.resource.Prefix)
	}
	return read.end(err, outcomeOfInner(err))
}

// foreignList answers a LIST.
func (s *Store) foreignList(ctx context.Context, r route, key string, opts *storage.ListOptions, list runtime.Object) error {
	read, asked := s.begin(ctx, verbList, r), *opts
	if s.resource.Raw == nil {
		if err := s.inner.GetList(ctx, key, asked, list); err != nil {
			return read.end(err, outcomeOfInner(err))
		}
		_ = meta.SetList(list, nil)
		return read.unanswered(key)
	}
	if r.kind != routeLeast {
		asked.ResourceVersion, asked.ResourceVersionMatch = "", ""
	}
	err := read.call(spanDirect, func(ctx context.Context) error { return s.direct.list(ctx, read.turnBy(errDirect), key, &asked, list) })
	if err == nil {
		s.wiring.say(s.observe, misfitPrefix, "key", key, "prefix", s.resource.Prefix)
	}
	return read.end(err, outcomeOf(err))
}

// foreignWatch refuses a Watch that the inner storage would take.
func (s *Store) foreignWatch(ctx context.Context, r route, key string, opts *storage.ListOptions) (watch.Interface, error) {
	read := s.begin(ctx, verbWatch, r)
	w, err := s.innerWatch(ctx, key, opts)
	if err != nil {
		return nil, read.end(err, outcomeOfInner(err))
	}
	w.Stop()
	return watchFailure(read.unanswered(key))
}

// unanswered ends a read that nothing sound can answer.
func (r *read) unanswered(key string) error {
	s := r.store
	s.wiring.say(s.observe, misfitPrefix, "key", key, "prefix", s.resource.Prefix)
	err := newFailure(ErrNotFresh, errForeign, r.verb == verbWatch)
	return r.end(err, outcomeOf(err))
}
