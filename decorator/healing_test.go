package decorator

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// ward is a Healing over upstream's cache and a storage in memory.
type ward struct {
	t       *testing.T
	memory  *memstorage.Backend
	writer  *memstorage.Storage // past the cache
	backend *Backend
	healing *Healing
	builds  atomic.Int32
	refuse  atomic.Bool                               // builds fail
	cached  *memstorage.Storage                       // what the present cache watches
	raw     func(storage.Interface) storage.Interface // around that; nil: nothing
	stops   atomic.Int32
}

// heal runs f in virtual time with a ward whose cache has pods a and b, at 2 and 3.
func heal(t *testing.T, cfg Config, raw func(storage.Interface) storage.Interface, f func(*testing.T, *ward)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &ward{t: t, memory: memstorage.NewBackend(), raw: raw}
		w.writer = memory(t, w.memory, memstorage.Config{Prefix: "/pods/"})
		w.put("a")
		w.put("b")
		cfg.Source, cfg.Pulse = freshness.SourceFunc(w.writer.GetCurrentResourceVersion), -1
		var err error
		if w.backend, err = NewBackend(cfg); err != nil {
			t.Fatal(err)
		}
		if w.healing, err = w.backend.Heal(w.build); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f(t, w)
		w.healing.Close()
		w.healing.Close()
		if err := w.backend.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(cacherTimers)
		if built, stopped := w.builds.Load(), w.stops.Load(); built != stopped {
			t.Errorf("%d were built and %d closed", built, stopped)
		}
	})
}

func (w *ward) put(name string) {
	w.t.Helper()
	p := pod("ns", name)
	if _, err := w.memory.Txn(memstorage.Put(podKey(p), p)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) build() (Generation, error) {
	if w.refuse.Load() {
		return Generation{}, errors.New("not now")
	}
	w.builds.Add(1)
	cached, err := memstorage.New(w.memory, memstorage.Config{Prefix: "/pods/", Tapped: true, New: newPod})
	if err != nil {
		return Generation{}, err
	}
	var raw storage.Interface = cached
	if w.raw != nil {
		raw = w.raw(raw)
	}
	res := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList, Raw: raw}
	if res.Feed, err = w.backend.Feed(raw, res); err != nil {
		return Generation{}, err
	}
	c, err := cacher.NewCacherFromConfig(cacherConfig("/pods/", res.Feed))
	if err != nil {
		return Generation{}, err
	}
	d := cacher.NewCacheDelegator(c, raw)
	d.Stop()
	store, err := w.backend.Wrap(d, res)
	if err != nil {
		return Generation{}, err
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		consistency.NewChecker("/pods/", pods, newPodList, store.Checked(c), raw).Run(stop)
	}()
	w.cached = cached
	return Generation{Store: store, Close: func() {
		close(stop)
		<-done
		store.Close()
		res.Feed.Quiet()
		c.Stop()
		res.Feed.Close()
		w.stops.Add(1)
	}}, nil
}

// restore takes the backend back to a, which the cache does not notice by itself.
func (w *ward) restore() {
	w.t.Helper()
	w.cached.Hold()
	if err := w.memory.Restore(2); err != nil {
		w.t.Fatal(err)
	}
}

// mustList is the state that the Healing answers.
func (w *ward) mustList(resourceVersion string) map[string]string {
	w.t.Helper()
	pods, err := list(w.t.Context(), w.healing, everything(resourceVersion))
	if err != nil {
		w.t.Fatal(err)
	}
	return stateOf(pods)
}

// TestHealing: the read that finds a rewind out fails, the next are right, and the old
// cache is closed.
func TestHealing(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		w.restore()
		_, err := list(t.Context(), w.healing, everything(""))
		if _, rewound := errors.AsType[*RewoundError](err); !rewound {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		for _, rv := range []string{"", "0", "2"} {
			if state := w.mustList(rv); !maps.Equal(state, map[string]string{"/pods/ns/a": "2"}) {
				t.Errorf("at %q: %v", rv, state)
			}
		}
		if builds, stops := w.builds.Load(), w.stops.Load(); builds != 2 || stops != 1 {
			t.Errorf("%d builds and %d closed", builds, stops)
		}
		if err := w.backend.Check(t.Context()); err != nil || w.backend.Status().Rewound != "" || len(w.backend.Status().Resources) != 1 {
			t.Errorf("health: %v; %+v", err, w.backend.Status())
		}
		if n := count(t, w.backend.metrics.StreamReopens.WithLabelValues("", "pods", "rewound")); n != 1 {
			t.Errorf("%v were counted", n)
		}
	})
}

// TestHealingWaits: until the new cache is filled reads fail with 503, health says why,
// and writes go to the backend, whose state they begin with. What cannot be built is
// tried again, ever more slowly.
func TestHealingWaits(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		w.restore()
		w.refuse.Store(true)
		for range 20 {
			_, err := list(t.Context(), w.healing, everything("3"))
			if err == nil {
				_, err = list(t.Context(), w.healing, everything(""))
			}
			checkStatus(t, err, 503)
			checkChain(t, err, &RewoundError{}, nil)
			checkStatus(t, second(w.healing.Watch(t.Context(), "/pods/", everything(""))), 429)
			time.Sleep(time.Second)
		}
		if w.backend.Check(t.Context()) == nil {
			t.Error("healthy")
		}
		if state := stateOfKey(t, w.healing, "/pods/ns/a"); state != "2" {
			t.Errorf("a write goes by %q, and a is at 2", state)
		}
		if state := stateOfKey(t, w.healing, "/pods/ns/b"); state != "" {
			t.Errorf("a write goes by %q, and b does not exist", state)
		}
		w.refuse.Store(false)
		time.Sleep(maxRebuildBackoff)
		if state := w.mustList(""); !maps.Equal(state, map[string]string{"/pods/ns/a": "2"}) {
			t.Errorf("in the end: %v", state)
		}
	})
}

func second[A, B any](_ A, b B) B { return b }

// stateOfKey is the revision of the object that an update begins with; "": none.
func stateOfKey(t *testing.T, s storage.Interface, key string) (revision string) {
	t.Helper()
	stop := errors.New("stop")
	err := s.GuaranteedUpdate(t.Context(), key, newPod(), true, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		revision = o.(*example.Pod).ResourceVersion
		return nil, stop
	}), nil)
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	return revision
}

// TestHealingEndsWatches, also those whose client does not read, and refuses to let them
// go on from what may be lost. What has begun since goes on.
func TestHealingEndsWatches(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		open := func() watch.Interface {
			watching, err := w.healing.Watch(t.Context(), "/pods/", everything("3"))
			if err != nil {
				t.Fatal(err)
			}
			return watching
		}
		reads, sleeps, stopped := open(), open(), open()
		w.put("c")
		synctest.Wait()
		stopped.Stop()
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		for _, watching := range []watch.Interface{reads, sleeps} {
			synctest.Wait()
			var types []watch.EventType
			for event := range watching.ResultChan() {
				types = append(types, event.Type)
			}
			if len(types) != 1 {
				t.Errorf("the watch brought %v", types)
			}
			watching.Stop()
		}
		w.put("d") // at 3, as b was
		refused := func(version string) bool {
			watching, err := w.healing.Watch(t.Context(), "/pods/", everything(version))
			if err != nil {
				t.Fatal(err)
			}
			defer watching.Stop()
			synctest.Wait()
			select {
			case event := <-watching.ResultChan():
				if !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
					t.Fatalf("from %s: %v", version, event)
				}
				return true
			default:
				return false
			}
		}
		if !refused("1") || !refused("3") {
			t.Error("a watch went on from what may be lost")
		}
		time.Sleep(2 * comeBack)
		if !refused("1") {
			t.Error("a watch went on from before the present cache")
		}
		if refused("3") {
			t.Error("nobody can go on any more")
		}
		open() // and is never read: closing does not wait for it
	})
}

// TestHealingLetsCallsEnd: the old cache is closed when its last call has ended.
func TestHealingLetsCallsEnd(t *testing.T) {
	var held chan struct{}
	block := func(raw storage.Interface) storage.Interface {
		return &spy{Interface: raw, onList: func(ctx context.Context, opts storage.ListOptions, _ runtime.Object, pass func() error) error {
			if opts.ResourceVersion == "1" {
				<-held
			}
			return pass()
		}}
	}
	heal(t, Config{}, block, func(t *testing.T, w *ward) {
		held = make(chan struct{}) // the bubble's
		opts := everything("1")
		opts.ResourceVersionMatch = "Exact"
		go func() { _, _ = list(t.Context(), w.healing, opts) }()
		synctest.Wait()
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		synctest.Wait()
		if w.builds.Load() != 2 || w.stops.Load() != 0 {
			t.Errorf("%d builds and %d closed, while a call is under way", w.builds.Load(), w.stops.Load())
		}
		close(held)
		synctest.Wait()
		if w.stops.Load() != 1 {
			t.Error("the call has ended, and the old cache has not")
		}
	})
}

// TestRepeatedRewinds: a backend that goes back again and again is not loaded with fills.
func TestRepeatedRewinds(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		end := time.Now().Add(10 * time.Minute)
		for time.Now().Before(end) {
			w.put("c")
			if _, err := list(t.Context(), w.healing, everything("")); err == nil {
				if err := w.memory.Restore(2); err != nil {
					t.Fatal(err)
				}
				_, _ = list(t.Context(), w.healing, everything(""))
			}
			time.Sleep(time.Second)
		}
		if builds := w.builds.Load(); builds > 20 {
			t.Errorf("%d builds in ten minutes", builds)
		}
	})
}

// TestInconsistentCache: a cache that lost an event answers wrongly; upstream's checker
// finds it, it is distrusted and built anew, and counted. Stock goes on.
func TestInconsistentCache(t *testing.T) {
	var lose atomic.Bool
	loses := func(raw storage.Interface) storage.Interface { return &losing{spy{Interface: raw}, &lose} }
	heal(t, Config{}, loses, func(t *testing.T, w *ward) {
		lose.Store(true)
		w.put("lost")
		synctest.Wait()
		lose.Store(false)
		w.put("c")
		want := map[string]string{"/pods/ns/a": "2", "/pods/ns/b": "3", "/pods/ns/lost": "4", "/pods/ns/c": "5"}
		if state := w.mustList(""); maps.Equal(state, want) {
			t.Fatal("the cache is right: this test has lost its meaning")
		}
		time.Sleep(consistency.CheckPeriod * 3 / 2)
		synctest.Wait()
		if state := w.mustList(""); !maps.Equal(state, want) {
			t.Errorf("got %v, want %v", state, want)
		}
		m := w.backend.metrics
		if reopened, breaches := count(t, m.StreamReopens.WithLabelValues("", "pods", "inconsistent")), count(t, m.Breaches.WithLabelValues("", "pods")); reopened != 1 || breaches != 1 || w.builds.Load() != 2 {
			t.Errorf("%v were counted, %v breaches, %d builds", reopened, breaches, w.builds.Load())
		}
		time.Sleep(time.Hour)
		if w.builds.Load() != 2 {
			t.Errorf("%d builds: a cache that is right is distrusted", w.builds.Load())
		}
	})
}

// losing is a storage whose watches lose events while lose is set.
type losing struct {
	spy
	lose *atomic.Bool
}

func (l *losing) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := l.spy.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { return e, e.Type == watch.Bookmark || !l.lose.Load() }), nil
}
