package decorator

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/util/watchlist"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/revision"
	"github.com/rvfloor/rvfloor/progress"
)

// Feed stands between a raw storage and the cache that watches it, and knows what
// the cache has applied. It is a storage.Interface, for cacher.Config.Storage;
// build it before the cache, which takes method values at construction.
//
// Over etcd the client of the raw storage must have a progress.Watcher in its
// Watcher field. Without one, which shows by the watch's context going into a gRPC call
// that no progress.Tap hears of, no bookmark proves anything, and reads are answered by
// StrategyDirect. (A storage that calls something else by gRPC, and whose bookmarks are sound,
// says so by Opened of the Tap that progress.TapFrom finds.) Over a storage that is not
// etcd, Feed asks for progress through RequestWatchProgress, and takes a revision for whole
// only when a later event or a bookmark proves it: storage.Interface has bookmarks come
// after the events below them.
type Feed struct {
	backend  *Backend
	resource Resource
	raw      storage.Interface
	newItem  func() object
	observe  *observer
	epoch    *freshness.Epoch // the history that the cache is of
	stream   *progress.Stream
	tears    tears
	fills    fills
	request  request
	nudge    nudge
	proof    rangeProof
	gaps     gaps
	write    write

	reply    revision.Ratchet // the highest that a request was answered with
	expected expectation
	standing atomic.Bool // stuck said so, and nothing was applied since
	tapped   atomic.Bool // a progress.Watcher was seen behind raw
	used     atomic.Bool // the cache has listed or watched through it
	wiring   wiring
	keysOnce sync.Once
	keysErr  error
	keys     atomic.Pointer[storage.KeysFunc]
	// fillError is why the newest fill of the cache failed; nil: none has since it was filled.
	fillError atomic.Pointer[error]

	quiet     chan struct{}
	quietOnce sync.Once

	mu     sync.Mutex
	closed bool
	watch  *feedWatch // the newest; only it counts
	cache  any        // the one under its Stores; nil: none, or it cannot be told from others
	stores int        // that were wrapped with it and are not closed
	listed uint64     // revision of the newest full list that the cache took
	// listedObjects are those of that list, which may come in pages.
	listedObjects objects
}

var _ storage.Interface = (*Feed)(nil)

// Watch is the cache's watch when it covers the whole resource; any other goes to
// the raw storage untouched.
func (f *Feed) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if !f.whole(key, opts) {
		return f.raw.Watch(ctx, key, opts)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, newFailure(ErrClosed, nil, true)
	}
	f.used.Store(true)
	f.wiring.mended(misfitUnwatched)
	from, held := delivery{}, objects{}
	if f.watch != nil {
		if f.watch.open() {
			f.misfits(misfitShared)
		}
		// Only the newest watch counts: what the old one had not delivered yet is cut.
		f.watch.Stop()
		<-f.watch.done
		from, held = f.watch.at, f.watch.objects
	}
	w, err := f.openLocked(ctx, key, opts, from, held)
	if err != nil {
		// What the old watch delivered is still what the cache has.
		f.watch = &feedWatch{done: closedChannel, at: from, objects: held}
		f.fillFailed(err)
		return nil, err
	}
	f.watch, f.listed = w, 0
	return w, nil
}

// openLocked opens the raw watch where the cache's knowledge is whole: the cache
// asks to go on from the last event that it took, which may be one of several of
// its revision.
func (f *Feed) openLocked(ctx context.Context, key string, opts storage.ListOptions, from delivery, held objects) (*feedWatch, error) {
	w := newFeedWatch(f)
	w.objects = held
	version, err := f.raw.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	switch {
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents:
		w.phase, w.objects = phaseFill, objects{}
	case version == 0:
		w.phase, w.objects = phaseUnknown, objects{}
	case version == from.revision && version != f.listed && from.whole < version:
		w.at = from
		w.at.seen = 0
		w.repeats = newRepeats(&f.resource, from.took)
		opts.ResourceVersion = formatRevision(from.whole)
	default:
		// A list at this revision filled the cache, or the watch before delivered
		// all of it.
		w.at = delivery{revision: version, whole: version}
		w.pending = version
		if version == f.listed {
			w.objects = f.listedObjects
		} else if version != from.revision {
			w.objects = objects{}
		}
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.ctx = ctx
	w.inner, err = f.raw.Watch(progress.WithTap(ctx, w), key, opts)
	if err != nil {
		w.cancel()
		return nil, err
	}
	w.opened = time.Now()
	go w.run()
	return w, nil
}

// replied is called for each answer to a request for progress.
func (f *Feed) replied(revision uint64) {
	f.reply.Raise(revision)
	f.expected.met(revision)
	f.stream.Replied(revision)
	f.backend.nudges.answered(revision)
}

// stuck is called when replies come that do not move, as from a member that is cut
// off from the others.
func (f *Feed) stuck(target uint64) {
	f.standing.Store(true)
	f.observe.stuck(target)
	f.backend.stoodStill(f.strategy(), target)
}

// silent is called when nothing has brought the cache any nearer for long.
func (f *Feed) silent(target uint64) { f.backend.fellSilent(f.strategy(), target) }

// whole says whether the options are those of a cache: everything of the resource.
func (f *Feed) whole(key string, opts storage.ListOptions) bool {
	return opts.Recursive && trimSlash(key) == trimSlash(f.resource.Prefix) && opts.Predicate.Empty()
}

// applied is called when the cache has applied every event at or below revision.
func (f *Feed) applied(revision uint64) {
	f.standing.Store(false)
	f.epoch.Saw(revision)
	filled := f.stream.Revision() == 0 || f.fillError.Load() != nil
	f.stream.Applied(revision)
	f.fills.ended()
	if filled {
		f.fillError.Store(nil)
		f.backend.chooser.recovering()
	}
}

// serve adds a Store over cache, which is to leave; false for another cache than the one under
// those that have not left, where they can be told apart.
func (f *Feed) serve(cache storage.Interface) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	told := reflect.TypeOf(cache).Comparable()
	if f.cache != nil && told && f.cache != any(cache) {
		return false
	}
	if f.cache == nil && told {
		f.cache = cache
	}
	f.stores++
	return true
}

// leave takes a Store out. With the last the Feed is free for another cache.
func (f *Feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stores--; f.stores == 0 {
		f.cache = nil
	}
}

// Quiet lets the cache's watch deliver nothing any more, so that the cache can be
// stopped: a Cacher that is stopped while its reflector hands it an event, with its
// queue full, waits for that for ever (k8s.io/apiserver v0.37). Idempotent.
func (f *Feed) Quiet() { f.quietOnce.Do(func() { close(f.quiet) }) }

// Close ends the cache's watch and wakes all waiters with ErrClosed. Idempotent.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	w := f.watch
	f.mu.Unlock()
	if w != nil {
		w.Stop()
		<-w.done
	}
	f.stream.Close()
	f.observe.series.release()
	f.backend.disown(f)
}

// GetCurrentResourceVersion answers the newest floor, read with those of all other
// callers of the backend; where no answer is to be changed, what the raw storage answers.
func (f *Feed) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	if f.backend.Mode() != ModeVerify {
		return f.raw.GetCurrentResourceVersion(ctx)
	}
	if floor, ok := ctx.Value(gated{f}).(uint64); ok {
		return floor, nil
	}
	floor, err := f.backend.floors.Next(ctx)
	if err != nil {
		return 0, floorFailure(ctx, err, false)
	}
	if rewound := f.epoch.Rewound(); rewound != nil {
		return 0, newFailure(rewound, nil, false) // the floor is one of another history
	}
	return floor.Revision, nil
}

// gated is the context key of the floor that a read has waited for at a cache. A page of
// the newest data cannot name it, and a revision read for it anew would be waited for inside
// of the Cacher, which does not look at the caller's deadline.
type gated struct{ feed *Feed }

func withGated(ctx context.Context, r *read, token string) context.Context {
	if token == "" || r.route.kind != routeFloor || r.store.resource.Feed == nil {
		return ctx
	}
	return context.WithValue(ctx, gated{r.store.resource.Feed}, r.target)
}

// RequestWatchProgress is the cache's own request, on a timer of its own. It is
// taken as a hint, so that it adds no load where a kick is under way. Where the strategy
// asks for no progress it goes to the backend all the same: reads that are not verified,
// and Stats, have the cache wait for it. Not where it would overtake events of a cache that
// reads are verified by.
func (f *Feed) RequestWatchProgress(ctx context.Context) error {
	switch {
	case f.asks():
		f.stream.Hint()
		return nil
	case f.silenced():
		return nil
	}
	return f.request.send(ctx)
}

// silenced reports whether the cache's own requests for progress are kept from the backend.
func (f *Feed) silenced() bool {
	return !f.asks() && f.backend.Mode() == ModeVerify && (f.wiring.fails() != nil || !f.backend.chooser.ordered())
}

// EnableResourceSizeEstimation keeps the KeysFunc of the newest cache: a raw
// storage takes one only once, and a cache that is rebuilt brings another.
func (f *Feed) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	f.keys.Store(&keys)
	f.keysOnce.Do(func() {
		f.keysErr = f.raw.EnableResourceSizeEstimation(f.listKeys)
	})
	return f.keysErr
}

// listKeys has the newest cache list its keys: those that it has, where it would wait for
// progress in vain. They are for an estimate.
func (f *Feed) listKeys(ctx context.Context) ([]string, error) {
	keys := *f.keys.Load()
	if !f.silenced() {
		return keys(ctx)
	}
	applied := f.stream.Revision()
	if applied == 0 {
		return nil, newFailure(ErrNotReady, nil, false)
	}
	return keys(context.WithValue(ctx, gated{f}, applied))
}

// GetList goes to the raw storage. A list of the whole resource is a fill of the
// cache: its revision is whole, whatever a watch had delivered of it before.
func (f *Feed) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if f.isFill(key, opts) {
		f.used.Store(true)
	}
	err := f.raw.GetList(ctx, key, opts, list)
	if err == nil {
		err = f.backend.hide(list)
	}
	if !f.isFill(key, opts) {
		return err
	}
	if err != nil {
		f.fillFailed(err)
		return err
	}
	if accessor, err := meta.ListAccessor(list); err == nil {
		if revision, err := f.raw.Versioner().ParseResourceVersion(accessor.GetResourceVersion()); err == nil {
			if revision == 0 {
				return apierrors.NewInternalError(errNoRevision)
			}
			f.mu.Lock()
			f.listed = revision
			f.listedObjects.page(opts.Predicate.Continue == "", accessor.GetContinue() == "", meta.LenList(list))
			f.mu.Unlock()
		}
	}
	return nil
}

// isFill is whole for a list, which may come in pages.
func (f *Feed) isFill(key string, opts storage.ListOptions) bool {
	opts.Predicate.Limit, opts.Predicate.Continue = 0, ""
	return f.whole(key, opts)
}

// Unwrap is the raw storage.
func (f *Feed) Unwrap() storage.Interface { return f.raw }

// IsWatchListSemanticsUnSupported tells a reflector over this Feed what it would
// be told by the raw storage.
func (f *Feed) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(f.raw)
}

// Versioner is that of the raw storage.
func (f *Feed) Versioner() storage.Versioner { return f.raw.Versioner() }

// Create goes to the raw storage.
func (f *Feed) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return f.raw.Create(ctx, key, obj, out, ttl)
}

// Delete goes to the raw storage.
func (f *Feed) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	return f.raw.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

// Get goes to the raw storage.
func (f *Feed) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	return f.raw.Get(ctx, key, opts, out)
}

// GuaranteedUpdate goes to the raw storage.
func (f *Feed) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	return f.raw.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

// Stats goes to the raw storage.
func (f *Feed) Stats(ctx context.Context) (storage.Stats, error) { return f.raw.Stats(ctx) }

// ReadinessCheck goes to the raw storage.
func (f *Feed) ReadinessCheck() error { return f.raw.ReadinessCheck() }

// CompactRevision goes to the raw storage.
func (f *Feed) CompactRevision() int64 { return f.raw.CompactRevision() }
