package decorator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// mortal takes the times to live that a storage in memory refuses.
type mortal struct{ storage.Interface }

func (m mortal) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	return m.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, func(in runtime.Object, r storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object, ttl, err := update(in, r)
		if err == nil && (ttl == nil || *ttl == 0) {
			panic("the object is to live for ever")
		}
		return object, nil, err
	}, cached)
}

// writing is a setup without progress, whose caches are brought to a floor by writes.
func writing(t *testing.T, f func(*testing.T, *rig)) {
	t.Helper()
	for name, untapped := range map[string]bool{"tapped": false, "untapped": true} {
		t.Run(name, func(t *testing.T) {
			s := setup{cfg: Config{Strategy: StrategyWrite}, untapped: untapped, raw: func(raw storage.Interface) storage.Interface { return mortal{raw} }}
			bubble(t, s, func(t *testing.T, r *rig) {
				r.cached.DropProgress(true)
				f(t, r)
			})
		})
	}
}

// TestWrite: after a write elsewhere LISTs share one write, and nothing is written for
// nobody.
func TestWrite(t *testing.T) {
	writing(t, func(t *testing.T, r *rig) {
		for range 3 {
			r.wantFresh(0)
		}
		before := r.cached.Calls().Update
		newest := r.memory.Bump()
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if pods, err := list(t.Context(), r.store, everything("")); err != nil || !slices.Equal(names(pods), []string{"fresh"}) {
					t.Errorf("got %v, %v", names(pods), err)
				}
			})
		}
		callers.Wait()
		if got := r.cached.Calls().Update - before; got < 1 || got > 2 || r.memory.Revision() > newest+2 {
			t.Errorf("%d writes for 1,000 LISTs, and the backend is at %d, %d above", got, r.memory.Revision(), r.memory.Revision()-newest)
		}
		settled()
		before = r.cached.Calls().Update
		time.Sleep(time.Minute)
		if got := r.cached.Calls(); got.Update != before || got.Kicks+got.Progress != 0 {
			t.Errorf("calls are %+v", got)
		}
	})
}

// TestWriteIsForSomebody: not for who has gone, or has no target yet.
func TestWriteIsForSomebody(t *testing.T) {
	writing(t, func(t *testing.T, r *rig) {
		if err := r.feed.advance(t.Context(), 0); err != nil || r.cached.Calls().Update != 0 {
			t.Errorf("%v, after %d writes", err, r.cached.Calls().Update)
		}
	})
}

// TestOnlyTheWrittenIsHidden: an object of the same name in another namespace is anybody's,
// and so is one of the same namespace and name under another key, as a tenant may have it.
func TestOnlyTheWrittenIsHidden(t *testing.T) {
	for path, object := range map[string]*example.Pod{
		"/pods/ns/" + writtenName:       pod("ns", writtenName),
		"/pods/tenant/rvfloor/the-same": pod(writtenNamespace, writtenName),
	} {
		writing(t, func(t *testing.T, r *rig) {
			for _, want := range [][]string{{writtenName}, {}} {
				change := memstorage.Put(path, object)
				if len(want) == 0 {
					change = memstorage.Delete(path)
				}
				r.txn(change)
				for name, in := range map[string]storage.Interface{"store": r.store, "feed": r.feed, "raw": r.store.resource.Raw} {
					pods, err := list(t.Context(), in, everything(""))
					if err != nil || !slices.Equal(names(pods), want) {
						t.Errorf("%s: the %s lists %v, %v", path, name, names(pods), err)
					}
				}
			}
		})
	}
}

// TestWriteIsHidden: nobody sees the object, whatever is asked for, neither when it comes
// and changes nor when it goes, alone or with others; the rest comes in order.
func TestWriteIsHidden(t *testing.T) {
	writing(t, func(t *testing.T, r *rig) {
		w, err := r.store.Watch(t.Context(), "/pods/", everything(formatRevision(r.applied())))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for _, name := range []string{"a", "b"} {
			r.put(name)
			r.wantFresh(0)
			r.txn(memstorage.Delete("/pods/rvfloor/rvfloor-written"), memstorage.Put("/pods/ns/c", pod("ns", "c")))
			r.wantFresh(0)
			r.txn(memstorage.Delete("/pods/rvfloor/rvfloor-written"))
			r.wantFresh(0)
		}
		settled()
		var events []string
		for len(w.ResultChan()) > 0 {
			event := <-w.ResultChan()
			events = append(events, short(event)[:strings.Index(short(event), "@")])
		}
		if got := strings.Join(slices.DeleteFunc(events, func(e string) bool { return strings.Contains(e, "fresh") }), ", "); got != "ADDED a, ADDED c, ADDED b, MODIFIED c" {
			t.Errorf("the events are %s", got)
		}
		for name, in := range map[string]storage.Interface{"store": r.store, "feed": r.feed, "raw": r.store.resource.Raw} {
			pods, err := list(t.Context(), in, everything(""))
			if got := strings.Join(names(pods), ", "); err != nil || got != "a, b, c, fresh" {
				t.Errorf("the %s lists %s, %v", name, got, err)
			}
		}
		if pods, _ := list(t.Context(), r.writer, everything("")); len(pods.Items) != 5 {
			t.Error("there is nothing to hide")
		}
		other, err := r.backend.Feed(r.cached, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		initial, err := other.Watch(t.Context(), "/pods/", cacheOptions("", new(true)))
		if err != nil {
			t.Fatal(err)
		}
		defer initial.Stop()
		for range 4 {
			if event := <-initial.ResultChan(); strings.Contains(short(event), writtenName) {
				t.Errorf("a fill brings %s", short(event))
			}
		}
		want(t, initial, "END "+formatRevision(r.memory.Revision()))
	})
}

// TestWriteIsNotRepeated: while its event is on its way the object is not written again
// and again.
func TestWriteIsNotRepeated(t *testing.T) {
	writing(t, func(t *testing.T, r *rig) {
		r.cached.Hold()
		r.memory.Bump()
		answered := r.lists()
		time.Sleep(2500 * time.Millisecond)
		if got := r.cached.Calls().Update; got < 2 || got > 3 {
			t.Errorf("%d writes in 2.5 s, want one each second", got)
		}
		wantNoAnswer(t, answered)
		r.cached.Release()
		wantNames(t, answered)
	})
}
