package decorator

import (
	"context"
	"errors"
	"k8s.io/apimachinery/pkg/runtime"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// misplace stores an object under another one's key, where no cache can have both.
func (w *ward) misplace(key, name string) {
	w.t.Helper()
	if _, err := w.memory.Txn(memstorage.Put("/pods/ns/"+key, pod("ns", name))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *ward) remove(key string) {
	w.t.Helper()
	if _, err := w.memory.Txn(memstorage.Delete("/pods/ns/" + key)); err != nil {
		w.t.Fatal(err)
	}
}

// checks passes n consistency checks, with a read in each minute that must be answered.
func (w *ward) checks(n int) (failed, all int) {
	w.t.Helper()
	for end := time.Now().Add(time.Duration(n) * consistency.CheckPeriod * 3 / 2); time.Now().Before(end); time.Sleep(time.Minute) {
		all++
		if _, err := list(w.t.Context(), w.healing, everything("")); err != nil {
			failed++
		}
	}
	return failed, all
}

// TestAlwaysInconsistent: a cache that is found wrong in the same way after it was built anew
// is not built again. Reads go past it, its watches live on, and it is named; when the storage
// is in order again, so is all else.
func TestAlwaysInconsistent(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		w.misplace("z", "a")
		w.checks(2)
		if builds := w.builds.Load(); builds != 2 {
			t.Fatalf("%d builds after two checks", builds)
		}
		watching, err := w.healing.Watch(t.Context(), "/pods/", everything("4"))
		if err != nil {
			t.Fatal(err)
		}
		defer watching.Stop()
		failed, all := w.checks(20)
		if builds := w.builds.Load(); builds != 2 || failed > 0 {
			t.Errorf("%d builds, and %d of %d reads failed", builds, failed, all)
		}
		pods, err := list(t.Context(), w.healing, everything(""))
		if err != nil || strings.Join(names(pods), " ") != "a b a" {
			t.Errorf("got %v, %v: a list of the storage has both", names(pods), err)
		}
		for _, rv := range []string{"0", "4"} {
			if pods, err := list(t.Context(), w.healing, everything(rv)); err != nil || len(pods.Items) != 3 {
				t.Errorf("at %q: got %v, %v", rv, names(pods), err)
			}
		}
		if why := w.backend.Status().Resources[0].Inconsistent; !strings.Contains(why, "ns/a") {
			t.Errorf("the status says %q", why)
		}
		if breaches := count(t, w.backend.metrics.Breaches.WithLabelValues("", "pods")); breaches != 2 {
			t.Errorf("it was said %v times, want once for each cache", breaches)
		}
		w.put("c")
		synctest.Wait()
		select {
		case event := <-watching.ResultChan():
			if object, err := meta.Accessor(event.Object); err != nil || object.GetName() != "c" {
				t.Errorf("the watch brought %v", event)
			}
		default:
			t.Error("the watch brings nothing")
		}

		// The event takes the right object out of the cache, too: another difference, and one
		// that a new cache does not have.
		w.remove("z")
		w.checks(3)
		if builds := w.builds.Load(); builds != 3 {
			t.Errorf("%d builds, when the storage was in order", builds)
		}
		if why := w.backend.Status().Resources[0].Inconsistent; why != "" {
			t.Errorf("in the end the status says %q", why)
		}
		if state := w.mustList(""); !maps.Equal(state, map[string]string{"/pods/ns/a": "2", "/pods/ns/b": "3", "/pods/ns/c": "5"}) {
			t.Errorf("in the end: %v", state)
		}
		// What is found wrong for the first time after that is built anew.
		w.misplace("y", "b")
		w.checks(3)
		if builds := w.builds.Load(); builds != 4 {
			t.Errorf("%d builds in the end", builds)
		}
	})
}

// TestAlwaysInOtherOrder: the same for an object under the key of nobody, which the cache has,
// in another place and under another key.
func TestAlwaysInOtherOrder(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		w.misplace("0", "z")
		failed, all := w.checks(10)
		if builds := w.builds.Load(); builds != 2 || failed > all/10 {
			t.Errorf("%d builds, and %d of %d reads failed", builds, failed, all)
		}
		got := &example.Pod{}
		if err := w.healing.Get(t.Context(), "/pods/ns/0", storage.GetOptions{ResourceVersion: "0"}, got); err != nil || got.Name != "z" {
			t.Errorf("got %s, %v", got.Name, err)
		}
	})
}

// TestInconsistentAndIncomparable: where it cannot be found out what differs, a cache is
// built anew once, too; a check that passes ends it.
func TestInconsistentAndIncomparable(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		cache := &heedless{}
		fail := func() {
			checked := w.healing.Store().Checked(cache)
			checked.cannotCompare = errors.New("too slow")
			checked.MarkConsistent(false)
			synctest.Wait()
		}
		fail()
		fail()
		fail()
		if builds := w.builds.Load(); builds != 2 {
			t.Errorf("%d builds", builds)
		}
		w.healing.Store().Checked(cache).MarkConsistent(true)
		if why := w.backend.Status().Resources[0].Inconsistent; why != "" {
			t.Errorf("the status says %q", why)
		}
		time.Sleep(calmAfter)
		fail()
		if builds := w.builds.Load(); builds != 3 {
			t.Errorf("%d builds, the last for a cache that was consistent", builds)
		}
	})
}

type heedless struct{}

func (*heedless) Ready() bool         { return true }
func (*heedless) MarkConsistent(bool) {}

// TestInconsistentWrites: a write does not begin with what a wrong cache suggests.
func TestInconsistentWrites(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		w.misplace("z", "a")
		w.checks(2)
		if state := stateOfKey(t, w.healing, "/pods/ns/a"); state != "2" {
			t.Errorf("a write of a begins with what is at %s", state)
		}
		if _, err := w.healing.Watch(context.Background(), "/pods/", everything("0")); err == nil {
			t.Error("a watch began with the state of a wrong cache")
		}
	})
}

// TestDifferences: two differences are told apart by what is different, and none where that is
// not known.
func TestDifferences(t *testing.T) {
	a, b := version{"a", "1"}, version{"b", "1"}
	of := func(all ...version) []version { return all }
	found := map[string]*difference{
		"lacks": differenceOf(of(a), of(a, b)),
		"has":   differenceOf(of(a, b), of(a)),
		"order": differenceOf(of(a, b), of(b, a)),
	}
	for name, one := range found {
		for other, another := range found {
			if one.same(another) != (name == other) {
				t.Errorf("%s %q and %s %q: same is %t", name, one.signature, other, another.signature, one.same(another))
			}
		}
		if unknown := (&difference{}); !unknown.same(one) || !one.same(unknown) || one.same(nil) {
			t.Errorf("%s: %q", name, one.signature)
		}
	}
	if none := differenceOf(of(a, b), of(a, b)); none.signature != "" {
		t.Errorf("equal ones differ: %q", none.signature)
	}
}

// TestComparesAllPages: the storage gives what is compared in parts.
func TestComparesAllPages(t *testing.T) {
	inParts := func(s storage.Interface) storage.Interface {
		return &spy{Interface: s, onList: func(ctx context.Context, opts storage.ListOptions, list runtime.Object, _ func() error) error {
			opts.Predicate.Limit = min(opts.Predicate.Limit, 2)
			return s.GetList(ctx, "/pods/", opts, list)
		}}
	}
	bubble(t, setup{raw: inParts}, func(t *testing.T, r *rig) {
		r.put("a", "b", "c", "d", "e")
		settled()
		if d, err := r.store.Checked(&heedless{}).compare(t.Context()); err != nil || d.signature != "" {
			t.Errorf("got %v, %v", d, err)
		}
	})
}

// TestInconsistentAtOnce: reads go past a cache from the verdict on, and not from when it is
// known what differs; and nothing is looked at where rvfloor is off.
func TestInconsistentAtOnce(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		if err := r.backend.SetMode(ModeOff); err != nil {
			t.Fatal(err)
		}
		r.store.foundInconsistent(func() (*difference, error) { t.Error("compared"); return nil, nil })
		if err := r.backend.SetMode(ModeVerify); err != nil {
			t.Fatal(err)
		}
		r.store.foundInconsistent(func() (*difference, error) {
			if r.store.differs() == nil {
				t.Error("reads are answered from the cache while it is compared")
			}
			return &difference{signature: "x"}, nil
		})
	})
}
