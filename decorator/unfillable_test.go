package decorator

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// unfillable is a storage that no cache can be filled from while it is down, as while a
// conversion webhook is.
type unfillable struct {
	spy
	down *atomic.Bool
}

var errWebhook = errors.New("the conversion webhook is down")

func (u *unfillable) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if u.down.Load() {
		return nil, apierrors.NewInternalError(errWebhook)
	}
	return u.spy.Watch(ctx, key, opts)
}

func (u *unfillable) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if u.down.Load() {
		return apierrors.NewInternalError(errWebhook)
	}
	return u.spy.GetList(ctx, key, opts, list)
}

// unfillableWard is a ward whose storage can be down.
func unfillableWard(t *testing.T, f func(*testing.T, *ward, *atomic.Bool)) {
	t.Helper()
	var down atomic.Bool
	raw := func(raw storage.Interface) storage.Interface { return &unfillable{spy{Interface: raw}, &down} }
	heal(t, Config{}, raw, func(t *testing.T, w *ward) { f(t, w, &down) })
}

// mustFail is the error of a LIST that is lost, and says why the cache cannot be filled.
func (w *ward) mustFail(reason string) {
	w.t.Helper()
	_, err := list(w.t.Context(), w.healing, everything(""))
	checkStatus(w.t, err, 503)
	if err == nil || !strings.Contains(err.Error(), reason) {
		w.t.Errorf("a read does not say %q: %v", reason, err)
	}
}

// TestUnfillable: a cache that cannot be filled after a restore is named by its reads and in
// the status, keeps the server from being ready for refillPatience and no longer, and is back
// by itself when it can be filled.
func TestUnfillable(t *testing.T) {
	unfillableWard(t, func(t *testing.T, w *ward, down *atomic.Bool) {
		down.Store(true)
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		synctest.Wait()
		time.Sleep(refillPatience - time.Second)
		if w.backend.Check(t.Context()) == nil {
			t.Error("ready, and it may still be filled")
		}
		time.Sleep(2 * time.Second)
		if err := w.backend.Check(t.Context()); err != nil {
			t.Errorf("one resource that cannot be filled keeps the server from being ready: %v", err)
		}
		for range 3 {
			w.mustFail(errWebhook.Error())
			time.Sleep(time.Hour)
		}
		status := w.backend.Status()
		if len(status.Resources) != 1 || status.Resources[0].Ready || !strings.Contains(status.Resources[0].Unfilled, errWebhook.Error()) {
			t.Errorf("the status does not name it: %+v", status.Resources)
		}
		down.Store(false)
		time.Sleep(time.Minute) // the longest that upstream's reflector waits, with its jitter
		if state := w.mustList(""); !maps.Equal(state, map[string]string{"/pods/ns/a": "2"}) {
			t.Errorf("in the end: %v", state)
		}
		if status := w.backend.Status(); len(status.Resources) != 1 || !status.Resources[0].Ready || status.Resources[0].Unfilled != "" {
			t.Errorf("in the end: %+v", status.Resources)
		}
		// What is lost later has the same time again.
		w.put("c")
		w.mustList("")
		down.Store(true)
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		if w.backend.Check(t.Context()) == nil {
			t.Error("ready, right after the next restore")
		}
		down.Store(false)
	})
}

// TestUnfillableEndsWatches: the watches of a cache that is lost end before they can bring
// an event of the new history, whether or not another cache can be filled; and who comes back
// from what may be lost is told to list.
func TestUnfillableEndsWatches(t *testing.T) {
	unfillableWard(t, func(t *testing.T, w *ward, down *atomic.Bool) {
		watching, err := w.healing.Watch(t.Context(), "/pods/", everything("3"))
		if err != nil {
			t.Fatal(err)
		}
		defer watching.Stop()
		down.Store(true)
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		synctest.Wait()
		w.put("c")
		w.cached.Release()
		synctest.Wait()
		select {
		case event, ok := <-watching.ResultChan():
			if ok {
				t.Errorf("the watch brought %v of another history", event)
			}
		default:
			t.Error("the watch lives on")
		}
		again, err := w.healing.Watch(t.Context(), "/pods/", everything("3"))
		if err != nil {
			t.Fatal(err)
		}
		defer again.Stop()
		synctest.Wait()
		if event := <-again.ResultChan(); !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("who goes on gets %v", event)
		}
		checkStatus(t, second(w.healing.Watch(t.Context(), "/pods/", everything(""))), 429)
		down.Store(false)
	})
}

// TestUnbuildable: the same where the cache cannot even be built.
func TestUnbuildable(t *testing.T) {
	heal(t, Config{}, nil, func(t *testing.T, w *ward) {
		w.refuse.Store(true)
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		time.Sleep(refillPatience + time.Second)
		if err := w.backend.Check(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
		w.mustFail("not now")
		if status := w.backend.Status(); len(status.Resources) != 1 || !strings.Contains(status.Resources[0].Unfilled, "not now") {
			t.Errorf("the status does not name it: %+v", status.Resources)
		}
		w.refuse.Store(false)
		time.Sleep(maxRebuildBackoff)
		w.mustList("")
	})
}

// TestRestoredWhileUnfillable: another restore meanwhile changes nothing.
func TestRestoredWhileUnfillable(t *testing.T) {
	unfillableWard(t, func(t *testing.T, w *ward, down *atomic.Bool) {
		down.Store(true)
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		time.Sleep(2 * refillPatience)
		w.put("c")
		w.put("d")
		if _, err := w.backend.floors.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.restore()
		_, _ = w.backend.floors.Next(t.Context())
		time.Sleep(2 * refillPatience)
		if err := w.backend.Check(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
		w.mustFail(errWebhook.Error())
		down.Store(false)
		time.Sleep(2 * time.Minute)
		if state := w.mustList(""); !maps.Equal(state, map[string]string{"/pods/ns/a": "2"}) {
			t.Errorf("in the end: %v", state)
		}
	})
}

// TestNeverFilled: a cache that could not be filled yet says why, with upstream's status, and
// holds up nobody's readiness.
func TestNeverFilled(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	raw := func(raw storage.Interface) storage.Interface { return &unfillable{spy{Interface: raw}, &down} }
	heal(t, Config{}, raw, func(t *testing.T, w *ward) {
		_, err := list(t.Context(), w.healing, everything(""))
		checkStatus(t, err, 429)
		if err == nil || !strings.Contains(err.Error(), errWebhook.Error()) {
			t.Errorf("a read does not say why: %v", err)
		}
		if err := w.backend.Check(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
		if status := w.backend.Status(); !strings.Contains(status.Resources[0].Unfilled, errWebhook.Error()) {
			t.Errorf("the status does not name it: %+v", status.Resources)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		w.mustList("")
	})
}

// TestClosedWhileUnfillable: closing waits for nothing that cannot be filled.
func TestClosedWhileUnfillable(t *testing.T) {
	unfillableWard(t, func(t *testing.T, w *ward, down *atomic.Bool) {
		down.Store(true)
		w.restore()
		_, _ = list(t.Context(), w.healing, everything(""))
		time.Sleep(2 * refillPatience)
		before := time.Now()
		w.healing.Close()
		if took := time.Since(before); took > cacherTimers {
			t.Errorf("closing took %v", took)
		}
		if err := w.backend.Check(t.Context()); err != nil {
			t.Errorf("what is closed keeps the server from being ready: %v", err)
		}
	})
}

// failing is a storage that fails as its fields say, until it is mended.
type failing struct {
	storage.Interface
	mended  chan struct{} // closed then
	onWatch func() (watch.Interface, error)
	onList  func() error // nil: it hangs
}

func (s *failing) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	select {
	case <-s.mended:
		return s.Interface.Watch(ctx, key, opts)
	default:
		return s.onWatch()
	}
}

func (s *failing) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if s.onList == nil {
		<-s.mended
	}
	select {
	case <-s.mended:
		return s.Interface.GetList(ctx, key, opts, list)
	default:
		return s.onList()
	}
}

// TestUnfilledSaysWhy: why a cache was not filled when that was last tried is known, however it
// was tried, until it is filled.
func TestUnfilledSaysWhy(t *testing.T) {
	broken := func() (watch.Interface, error) { return nil, errors.New("no watch") }
	for name, row := range map[string]struct {
		why     string
		onWatch func() (watch.Interface, error)
		onList  func() error
	}{
		"watch": {"no watch", broken, nil},
		"event": {"no event", func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Error(&apierrors.NewInternalError(errors.New("no event")).ErrStatus)
			return w, nil
		}, nil},
		"list": {"no list", broken, func() error { return errors.New("no list") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				raw := &failing{mended: make(chan struct{}), onWatch: row.onWatch, onList: row.onList}
				r := newRig(t, setup{filling: true, raw: func(s storage.Interface) storage.Interface { raw.Interface = s; return raw }})
				settled()
				if err := r.store.unfilled(); err == nil || !strings.Contains(err.Error(), row.why) {
					t.Errorf("got %v", err)
				}
				close(raw.mended)
				r.cached.Release()
				time.Sleep(time.Minute)
				if r.feed.fillError.Load() != nil {
					t.Errorf("it is filled, and %v is kept", *r.feed.fillError.Load())
				}
			})
		})
	}
	t.Run("no feed", func(t *testing.T) {
		bubble(t, setup{filling: true, feedless: true}, func(t *testing.T, r *rig) {
			if r.store.unfilled() == nil {
				t.Error("nothing is said")
			}
		})
	})
}
