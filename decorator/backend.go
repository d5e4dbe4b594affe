package decorator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/metrics"
	"github.com/rvfloor/rvfloor/progress"
)

// Backend is one revision space: an etcd cluster, a kine, a shim. Its resources
// share the revision reads and the budget of progress requests. Two clusters, or
// a store with a revision counter for each resource, are Backends of their own.
type Backend struct {
	cfg         Config
	floors      *freshness.Floors
	coordinator *progress.Coordinator
	metrics     *metrics.Metrics
	tracer      trace.Tracer // nil: no spans
	series      *series
	chooser     *chooser
	prober      *prober // nil: nobody looks
	nudges      *nudges
	proofs      chan struct{} // places for ranges that are under way
	mode        atomic.Uint32 // an index into modes
	record      record
	// probesUnasked is set where cfg.Probe is the default, not one that the owner gave.
	probesUnasked bool
	following     sync.WaitGroup     // see followConnections
	unfollow      context.CancelFunc // nil: nothing is followed

	mu     sync.Mutex
	closed bool
	open   map[interface{ Close() }]struct{} // Feeds and Stores
	pulse  *pulse                            // nil: none, as long as none is open
}

// failFast is how long a backend's revision has to be out of reach until reads do not wait
// for it any more: as long as one of them waits by default, so that the first are served
// if it is back in time, and as clients send more of them. It does not follow
// Config.MaxWait: a long one is for backends that are slow, and a short one would take a
// few slow reads for an outage.
const failFast = 3 * time.Second

// NewBackend returns a Backend, or an error that names a wrong field of cfg.
func NewBackend(cfg Config) (*Backend, error) {
	if cfg.Source == nil {
		return nil, errors.New("decorator: Config.Source is nil; for etcd use freshness.NewSentinel")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	unasked := cfg.Probe == nil
	if unasked {
		cfg.Probe = cfg.defaultProbe()
	}
	collectors, err := metrics.New(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	b := &Backend{
		cfg:         cfg,
		coordinator: progress.NewCoordinator(progress.Config{}),
		metrics:     collectors,
		series:      backendSeries(collectors, cfg.Name),
		open:        map[interface{ Close() }]struct{}{},
		proofs:      make(chan struct{}, maxDirect),
	}
	b.chooser, b.nudges = newChooser(b), newNudges(b)
	if cfg.Shadow {
		_ = b.SetMode(ModeShadow)
	}
	if cfg.TracerProvider != nil {
		b.tracer = cfg.TracerProvider.Tracer("github.com/rvfloor/rvfloor/decorator")
	}
	b.floors, err = freshness.NewFloors(cfg.Source, freshness.Config{
		Timeout: cfg.MaxWait, Patience: cfg.MaxWait, FailFast: failFast, Hooks: b.floorHooks(),
	})
	if err != nil {
		b.series.release()
		return nil, err
	}
	b.probesUnasked = unasked && cfg.Probe != nil
	b.prober = startProber(b)
	b.followConnections()
	return b, nil
}

// Resource is one resource of a Backend.
type Resource struct {
	// GroupResource names it in metrics and errors.
	GroupResource schema.GroupResource
	// Prefix is the cache's ResourcePrefix, such as "/pods/". Required.
	Prefix string
	// NewList returns an empty list of its kind. Required.
	NewList func() runtime.Object
	// KeyFunc is the cache's own, by which it tells its objects apart. It is called from other
	// goroutines than the cache's. nil: where it matters they are told apart by what is in them.
	KeyFunc func(runtime.Object) (string, error)
	// Raw is the storage behind the cache: for UnverifiedDirect and StrategyDirect, for
	// writes and exact reads when the cache is lost, for exact reads of what StrategyRangeProof
	// has passed over, and for what upstream sends to the storage while the cache is being
	// filled. nil: these fail, but for the last, which go to the cache.
	Raw storage.Interface
	// Feed is what the cache watches through. nil: somebody else built the cache,
	// and it is asked for its revision instead; revisions that changed many objects
	// are then not promised to be seen whole.
	Feed *Feed
	// Prove is for StrategyRangeProof; nil: the resource is not brought to a floor by it. It
	// needs a Feed over a storage with a progress.Watcher.
	Prove Prover
	// SharesItems says that callers of the cache's GetList get items of which what they
	// point to is the cache's own, and not to be changed, as from upstream's Cacher. Then
	// equal LISTs that have waited together may share an answer of the cache, whoever asks:
	// each gets a list of its own with the same items.
	SharesItems bool
	// SharesLists says that Raw answers equal lists alike, whoever asks. Then direct lists are
	// shared by equal requests that wait together; each gets objects of its own. Without it
	// each caller's list is made with its own context, with all that this carries, and for it
	// alone: what Raw shows may depend on a tenant or a user there.
	SharesLists bool
}

func (r Resource) validate() error {
	switch {
	case !strings.HasPrefix(r.Prefix, "/") || r.Prefix == "/":
		return fmt.Errorf(`decorator: Resource.Prefix of %s is %q; use the cache's ResourcePrefix, such as "/pods/"`, r.GroupResource, r.Prefix)
	case r.NewList == nil:
		return fmt.Errorf("decorator: Resource.NewList of %s is nil; set it to a function that returns an empty list of the kind", r.GroupResource)
	}
	return nil
}

// Feed returns what the cache of a resource is to watch through, over its raw
// storage. r.Feed is not looked at.
func (b *Backend) Feed(raw storage.Interface, r Resource) (*Feed, error) {
	if raw == nil {
		return nil, fmt.Errorf("decorator: raw storage of %s is nil; pass what the cache would have watched", r.GroupResource)
	}
	if raw.Versioner() == nil {
		return nil, fmt.Errorf("decorator: raw storage of %s has no Versioner; make it with one, such as storage.APIObjectVersioner", r.GroupResource)
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	newItem, err := itemMaker(r.NewList)
	if err != nil {
		return nil, err
	}
	f := &Feed{backend: b, resource: r, raw: raw, newItem: newItem, quiet: make(chan struct{}), epoch: b.floors.Epoch(), observe: newObserver(b, r.GroupResource)}
	f.stream = b.coordinator.NewStream(progress.StreamConfig{
		Advance: f.advance, KickNow: f.kickNow, Timeout: advanceTimeout, Blind: f.asks, Stuck: f.stuck, Silent: f.silent,
	})
	if r.Prove != nil {
		b.chooser.provable()
	}
	f.request = request{f}
	f.nudge = nudge{f.request, b.nudges, f.stream.Below}
	f.proof, f.write = rangeProof{f}, write{feed: f}
	if err := b.adopt(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Wrap returns the Store that callers are to use instead of cache, which is an
// upstream CacheDelegator over a Cacher, or any storage.Interface that answers
// reads at resourceVersionMatch NotOlderThan from memory.
func (b *Backend) Wrap(cache storage.Interface, r Resource) (*Store, error) {
	if cache == nil {
		return nil, fmt.Errorf("decorator: cache of %s is nil; pass the storage that callers would have used", r.GroupResource)
	}
	if cache.Versioner() == nil {
		return nil, fmt.Errorf("decorator: cache of %s has no Versioner; set that of its storage, such as storage.APIObjectVersioner", r.GroupResource)
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	if r.Feed != nil && r.Feed.backend != b {
		return nil, fmt.Errorf("decorator: Resource.Feed of %s belongs to another Backend; build it with the Backend that wraps the cache", r.GroupResource)
	}
	if r.Feed != nil && trimSlash(r.Feed.resource.Prefix) != trimSlash(r.Prefix) {
		return nil, fmt.Errorf("decorator: Resource.Feed is for prefix %q and Resource.Prefix is %q; wrap each cache with its own Feed", r.Feed.resource.Prefix, r.Prefix)
	}
	if f, ok := cache.(*Feed); ok {
		return nil, fmt.Errorf("decorator: cache of %s is its Feed; pass what watches through that, such as a CacheDelegator", f.resource.GroupResource)
	}
	if r.Feed != nil && !r.Feed.serve(cache) {
		return nil, fmt.Errorf("decorator: Resource.Feed of %s is that of another cache; build a Feed for each cache, and pass it as the Storage of one", r.GroupResource)
	}
	s := newStore(b, cache, r)
	if err := b.adopt(s); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Doubt tells that a connection to the backend was lost or made: what answers now may
// have another history than what answered before. Until a floor proves the contrary, no write
// begins with what a cache suggests. In an outage it lets the backend be tried at once. A
// Source that hears of its own connection, as freshness.Sentinel does, tells of that by itself.
func (b *Backend) Doubt() { b.floors.Doubt() }

// Close wakes every waiter with ErrClosed, closes all Feeds and Stores, and
// returns when all that was started has stopped. Idempotent.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	open, pulse := b.open, b.pulse
	b.open, b.pulse = nil, nil
	b.mu.Unlock()
	pulse.stop()
	b.prober.stop()
	if b.unfollow != nil {
		b.unfollow()
		b.following.Wait()
	}
	b.chooser.trials.close()
	err := b.floors.Close()
	for c := range open {
		c.Close()
	}
	b.nudges.writes.Close()
	b.series.release()
	return err
}

// caches calls do for each cache that is open: with its Feed, nil where somebody else
// built it.
func (b *Backend) caches(do func(*Feed, *progress.Stream)) {
	b.mu.Lock()
	open := slices.Collect(maps.Keys(b.open))
	b.mu.Unlock()
	for _, c := range open {
		switch c := c.(type) {
		case *Feed:
			do(c, c.stream)
		case *Store:
			if c.pilot != nil {
				do(nil, c.stream)
			}
		}
	}
}

func (b *Backend) adopt(c interface{ Close() }) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("decorator: Backend %q: %w", b.cfg.Name, ErrClosed)
	}
	if len(b.open) == 0 {
		b.pulse = startPulse(b)
	}
	b.open[c] = struct{}{}
	return nil
}

func (b *Backend) disown(c interface{ Close() }) {
	b.mu.Lock()
	delete(b.open, c)
	var last *pulse
	if len(b.open) == 0 {
		last, b.pulse = b.pulse, nil
	}
	b.mu.Unlock()
	last.stop()
}
