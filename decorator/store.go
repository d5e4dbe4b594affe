package decorator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/progress"
)

// Store is a storage.Interface whose Get, GetList and Watch are verified as the
// package comment promises. All other methods go to the inner storage.
type Store struct {
	backend  *Backend
	resource Resource
	inner    storage.Interface
	router   router
	epoch    *freshness.Epoch // the history that the cache is of
	distrust distrust
	wrong    atomic.Pointer[difference] // the cache differs from the backend; nil: nothing is known
	before   atomic.Pointer[difference] // so did the one that it took the place of; nil: not, or it was found right since
	stays    atomic.Bool                // it was told that it is not built anew
	aside    atomic.Bool                // a Healing has another in this one's place, or not yet this one
	refill   atomic.Pointer[refill]     // lost under a Healing; nil: not
	stream   *progress.Stream
	tears    *tears
	fills    *fills
	wiring   *wiring
	pilot    *pilot // nil with a Feed
	leave    func() // lets go of the Feed; nil without
	direct   *direct
	observe  *observer

	crowd     crowd
	shadows   chan struct{} // places for reads that Shadow verifies
	verifying workers
}

var _ storage.Interface = (*Store)(nil)

func newStore(b *Backend, inner storage.Interface, r Resource) *Store {
	r.Raw = b.Shown(r.Raw)
	s := &Store{
		backend:  b,
		resource: r,
		inner:    inner,
		router: router{
			policy:    policy{zero: b.cfg.ZeroVersion, cachedGets: b.cfg.CachedGets},
			prefix:    r.Prefix,
			versioner: inner.Versioner(),
		},
		epoch:    b.floors.Epoch(),
		distrust: distrust{found: make(chan struct{})},
		shadows:  make(chan struct{}, maxShadows),
	}
	if r.Feed != nil {
		s.epoch = r.Feed.epoch
		s.stream, s.tears, s.fills, s.observe = r.Feed.stream, &r.Feed.tears, &r.Feed.fills, r.Feed.observe
		s.wiring, s.leave = &r.Feed.wiring, sync.OnceFunc(r.Feed.leave)
	} else {
		s.tears, s.fills, s.observe, s.wiring = &tears{}, &fills{}, newObserver(b, r.GroupResource), &wiring{}
		s.pilot = newPilot(s)
		s.stream = s.pilot.stream
	}
	s.direct = newDirect(r, b.cfg, s.observe, s.listRaw)
	return s
}

// Close lets go of what the Store started. It closes neither the inner storage nor
// the Feed. Idempotent.
func (s *Store) Close() {
	s.backend.disown(s)
	s.direct.close()
	if s.pilot != nil {
		s.pilot.close()
	}
	s.verifying.close()
	if s.leave != nil {
		s.leave()
	} else {
		s.observe.series.release() // else the Feed's
	}
}

// AheadPaid is how many progress requests went out beside a floor read that needed
// one, and how many of these brought the cache to the floor without another.
func (s *Store) AheadPaid() (paid, sent uint64) { return s.stream.AheadPaid() }

// Unwrap is the inner storage.
func (s *Store) Unwrap() storage.Interface { return s.inner }

// Get is verified where the resourceVersion asks the cache; unset it is a
// linearizable read of the inner storage, unless Config.CachedGets is set.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	r := s.router.get(opts)
	if _, err := storage.PrepareKey(s.resource.Prefix, key, false); err != nil || r.kind == routeInner {
		if r.kind != routeInner && s.foreign(key, false) {
			return s.foreignGet(ctx, r, key, opts, out)
		}
		to, err := s.unverified()
		if err != nil {
			return err
		}
		return to.Get(ctx, key, opts, out)
	}
	if s.bypass(ctx, verbGet, r) {
		return s.inner.Get(ctx, key, opts, out)
	}
	read := s.begin(ctx, verbGet, r)
	floor, err := read.gate(true)
	switch {
	case err == nil:
		if r.rewrite {
			opts.ResourceVersion = formatRevision(floor)
		}
		err = read.call(spanInner, func(ctx context.Context) error { return read.inner().Get(ctx, key, opts, out) })
		return read.end(err, outcomeOfInner(err))
	case read.falls(UnverifiedDirect, err) && s.resource.Raw != nil:
		if r.kind != routeLeast {
			opts.ResourceVersion = ""
		}
		err = read.call(spanDirect, func(ctx context.Context) error { return s.resource.Raw.Get(ctx, key, opts, out) })
		return read.end(err, outcomeOfInner(err))
	case read.falls(UnverifiedStale, err) && r.kind != routeLeast:
		read.warnStale()
		opts.ResourceVersion = "0"
		err = read.call(spanInner, func(ctx context.Context) error { return s.inner.Get(ctx, key, opts, out) })
		return read.end(err, outcomeStale)
	}
	return read.end(err, outcomeOf(err))
}

// GetList is verified.
func (s *Store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	// What is big is in the frames of the functions called from here, not in this one,
	// which thousands may have on their stacks while they wait in gate.
	r := s.router.list(&opts)
	if _, err := storage.PrepareKey(s.resource.Prefix, key, opts.Recursive); err != nil || r.kind == routeInner || s.goesOnDirectly(&opts) {
		if err != nil && r.kind != routeInner && s.foreign(key, opts.Recursive) {
			return s.foreignList(ctx, r, key, &opts, list)
		}
		return s.passList(ctx, key, &opts, list)
	}
	if s.bypass(ctx, verbList, r) {
		return s.innerList(ctx, key, &opts, list)
	}
	read := s.begin(ctx, verbList, r)
	read.number = s.crowd.enter()
	defer s.crowd.leave()
	floor, err := read.gate(servedWhileNotReady(&opts))
	if err == nil {
		var inner bool
		if inner, err = read.list(key, &opts, list, floor); inner || err == nil {
			return read.end(err, outcomeOfInner(err))
		}
	}
	return read.unverifiedList(key, &opts, list, err)
}

// passList is a LIST that is not verified.
//
//go:noinline
func (s *Store) passList(ctx context.Context, key string, opts *storage.ListOptions, list runtime.Object) error {
	to, err := s.unverified()
	if err != nil {
		return err
	}
	if s.goesOnDirectly(opts) {
		return s.direct.list(ctx, time.Now().Add(s.backend.cfg.MaxWait), key, opts, list)
	}
	_, err = s.listExactly(ctx, to, key, opts, list)
	return err
}

//go:noinline
func (s *Store) innerList(ctx context.Context, key string, opts *storage.ListOptions, list runtime.Object) error {
	_, err := s.listExactly(ctx, s.inner, key, opts, list)
	return err
}

// unverifiedList answers a LIST that failed with err by the policy.
func (r *read) unverifiedList(key string, opts *storage.ListOptions, list runtime.Object, err error) error {
	s, asked := r.store, *opts
	switch {
	case r.falls(UnverifiedDirect, err) && s.resource.Raw != nil:
		if r.route.rewrite || asked.ResourceVersion == "0" {
			asked.ResourceVersion, asked.ResourceVersionMatch = "", ""
		}
		err = r.call(spanDirect, func(ctx context.Context) error { return s.direct.list(ctx, r.turnBy(err), key, &asked, list) })
	case r.falls(UnverifiedStale, err) && r.route.kind != routeLeast && asked.Predicate.Continue == "":
		r.warnStale()
		asked.ResourceVersion, asked.ResourceVersionMatch = formatRevision(s.stream.Revision()), notOlderThan
		err = r.call(spanInner, func(ctx context.Context) error { return s.inner.GetList(ctx, key, asked, list) })
		return r.end(err, outcomeStale)
	}
	return r.end(err, outcomeOf(err))
}

// ask asks the cache until the answer is whole, and checks it on the way out:
// an answer below the floor is a breach. inner says that err is the inner
// storage's own.
func (r *read) ask(key string, opts *storage.ListOptions, list runtime.Object, floor uint64) (revision uint64, inner bool, err error) {
	s, asked := r.store, *opts
	if r.route.rewrite {
		asked.ResourceVersion, asked.ResourceVersionMatch = formatRevision(floor), notOlderThan
	}
	for {
		whole := s.stream.Revision()
		err := r.call(spanInner, func(ctx context.Context) error {
			past, err := s.listExactly(withGated(ctx, r, asked.Predicate.Continue), r.inner(), key, &asked, list)
			r.raw = r.raw || past
			return err
		})
		if err != nil {
			return 0, true, err
		}
		accessor, err := meta.ListAccessor(list)
		if err != nil {
			return 0, true, err
		}
		revision, err := s.router.versioner.ParseResourceVersion(accessor.GetResourceVersion())
		below := revision < floor
		late := below && r.unready // it became ready just then
		if err != nil || below && !late {
			return 0, false, r.breach(accessor.GetResourceVersion(), floor)
		}
		if !late && (r.pastCache() || !s.tears.torn(whole, revision)) {
			return revision, false, nil
		}
		if err := r.wait(max(revision, floor)); err != nil {
			return 0, false, err
		}
		r.unready = false
		if err := meta.SetList(list, nil); err != nil {
			return 0, false, err
		}
	}
}

// Watch is verified where it starts from the state of the cache: unset, "0", and
// with initial events. From a revision N it is refused at once when N does not
// exist yet; stock drops the events up to N.
func (s *Store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := s.watch(ctx, key, &opts)
	if err == nil && opts.Predicate.AllowWatchBookmarks && s.resource.Feed != nil && s.backend.Mode() == ModeVerify {
		return s.bookmarked(ctx, w), nil
	}
	return w, err
}

func (s *Store) watch(ctx context.Context, key string, opts *storage.ListOptions) (watch.Interface, error) {
	r := s.router.watch(opts, watchListEnabled())
	if _, err := storage.PrepareKey(s.resource.Prefix, key, opts.Recursive); err != nil || r.kind == routeInner {
		if err := s.loss(true); err != nil && s.backend.Mode() == ModeVerify {
			return watchFailure(err)
		}
		if r.kind != routeInner && s.foreign(key, opts.Recursive) {
			return s.foreignWatch(ctx, r, key, opts)
		}
		return s.innerWatch(ctx, key, opts)
	}
	if s.bypass(ctx, verbWatch, r) {
		return s.innerWatch(ctx, key, opts)
	}
	read := s.begin(ctx, verbWatch, r)
	floor, err := read.gate(false)
	if err == nil {
		var w watch.Interface
		var inner bool
		if w, inner, err = read.watch(key, opts, floor); inner || err == nil {
			return w, read.end(err, outcomeOfInner(err))
		}
	}
	if read.falls(UnverifiedStale, err) && r.kind != routeLeast {
		read.warnStale()
		if r.rewrite {
			opts.ResourceVersion = formatRevision(s.stream.Revision())
		}
		ctx, call := read.part(spanInner)
		w, err := s.innerWatch(ctx, key, opts)
		return w, read.end(call.end(err), outcomeStale)
	}
	read.end(err, outcomeOf(err))
	return watchFailure(err)
}

//go:noinline
func (s *Store) innerWatch(ctx context.Context, key string, opts *storage.ListOptions) (watch.Interface, error) {
	return s.watchInner(ctx, key, opts)
}

// watch opens the inner watch between two revisions: one that is opened while the
// cache has part of a revision never brings the rest.
func (r *read) watch(key string, opts *storage.ListOptions, floor uint64) (w watch.Interface, inner bool, err error) {
	s, asked := r.store, *opts
	if r.route.rewrite {
		asked.ResourceVersion = formatRevision(floor)
	}
	for {
		whole := s.stream.Revision()
		ctx, call := r.part(spanInner)
		w, err := s.watchInner(ctx, key, &asked)
		if call.end(err) != nil {
			return nil, true, err
		}
		torn := s.tears.since(whole)
		if torn == 0 {
			return w, false, nil
		}
		w.Stop()
		if err := r.wait(torn); err != nil {
			return nil, false, err
		}
	}
}

// servedWhileNotReady says whether upstream's CacheDelegator sends a LIST to the
// storage while its cache is not ready (KEP-4568).
func servedWhileNotReady(opts *storage.ListOptions) bool {
	p := &opts.Predicate
	return p.Limit > 0 && (p.Label == nil || p.Label.Empty()) && (p.Field == nil || p.Field.Empty())
}

// Create goes to the inner storage.
func (s *Store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	write := s.ownWrite()
	err := s.inner.Create(ctx, key, obj, out, ttl)
	write.created(ctx, key, out, err)
	return err
}

// Delete goes to the inner storage; to the raw one, without a suggestion, as long as
// the cache may be of another history than the backend's.
func (s *Store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	write := s.ownWrite()
	to, cached, err := s.writer(cached)
	if err == nil {
		err = to.Delete(ctx, key, out, preconditions, validate, cached, opts)
	}
	write.changed(ctx, out, err)
	return err
}

// GuaranteedUpdate goes where Delete does.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	write := s.ownWrite()
	to, cached, err := s.writer(cached)
	if err == nil {
		err = to.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, write.noting(update), cached)
	}
	write.changed(ctx, destination, err)
	return err
}

// Versioner is that of the inner storage.
func (s *Store) Versioner() storage.Versioner { return s.inner.Versioner() }

// Stats goes to the inner storage.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) { return s.inner.Stats(ctx) }

// ReadinessCheck is that of the inner storage, once Config.Probe has looked at the backend.
func (s *Store) ReadinessCheck() error {
	if s.backend.Mode() == ModeVerify && s.backend.looking() {
		return errLooking
	}
	return s.inner.ReadinessCheck()
}

// RequestWatchProgress goes to the inner storage.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	return s.inner.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion goes to the inner storage.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return s.inner.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation goes to the inner storage.
func (s *Store) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	return s.inner.EnableResourceSizeEstimation(keys)
}

// CompactRevision goes to the inner storage.
func (s *Store) CompactRevision() int64 { return s.inner.CompactRevision() }
