package memstorage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
	"github.com/rvfloor/rvfloor/progress"
)

// inBubble runs f in virtual time, over one Storage.
func inBubble(t *testing.T, cfg memstorage.Config, f func(*testing.T, *memstorage.Storage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		backend := memstorage.NewBackend()
		t.Cleanup(backend.Close)
		f(t, newStorage(t, backend, cfg))
	})
}

func pod(name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// put writes pods at one revision, which it returns.
func put(t *testing.T, s *memstorage.Storage, names ...string) uint64 {
	t.Helper()
	var changes []memstorage.Change
	for _, name := range names {
		changes = append(changes, memstorage.Put("/pods/ns/"+name, pod(name)))
	}
	revision, err := s.Backend().Txn(changes...)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func open(t *testing.T, ctx context.Context, s storage.Interface, opts storage.ListOptions) watch.Interface {
	t.Helper()
	opts.Recursive, opts.Predicate = true, storage.Everything
	opts.Predicate.AllowWatchBookmarks = true
	w, err := s.Watch(ctx, "/pods/", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// got is all that a watch delivers before it waits or ends, in short.
func got(w watch.Interface) []string {
	var all []string
	for {
		synctest.Wait()
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return append(all, "closed")
			}
			all = append(all, short(event))
		default:
			return all
		}
	}
}

func short(event watch.Event) string {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return fmt.Sprintf("%s %v", event.Type, event.Object.(*metav1.Status).Code)
	}
	if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		return "END " + object.GetResourceVersion()
	}
	return fmt.Sprintf("%s %s%s", event.Type, object.GetName(), object.GetResourceVersion())
}

func want(t *testing.T, w watch.Interface, items ...string) {
	t.Helper()
	if all := got(w); !slices.Equal(all, items) {
		t.Errorf("the watch delivered %q, want %q", all, items)
	}
}

func TestHoldStepRelease(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		w := open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "1"})
		s.Hold()
		put(t, s, "a", "b", "c")
		want(t, w)
		s.Step(2)
		want(t, w, "ADDED a2", "ADDED b2")
		s.Release()
		want(t, w, "ADDED c2")
	})
}

func TestInitialEvents(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		put(t, s, "b")
		put(t, s, "a")
		s.Backend().Bump()
		w := open(t, t.Context(), s, storage.ListOptions{SendInitialEvents: new(true)})
		put(t, s, "a")
		want(t, w, "ADDED a3", "ADDED b2", "END 4", "MODIFIED a5")
		want(t, open(t, t.Context(), s, storage.ListOptions{}), "ADDED a5", "ADDED b2")
	})
}

func TestCutInsideRevision(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		w := open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "1"})
		s.CutAfter(2)
		put(t, s, "a", "b", "c")
		want(t, w, "ADDED a2", "ADDED b2", "closed")
		w = open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "1"})
		want(t, w, "ADDED a2", "ADDED b2", "ADDED c2")
		s.CutAfter(0)
		want(t, w, "closed")
	})
}

func TestProgress(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		w := open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "1"})
		ask := func() {
			t.Helper()
			if err := s.RequestWatchProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s.Backend().Bump()
		want(t, w)
		ask()
		want(t, w, "BOOKMARK 2")

		s.FreezeProgress(true)
		put(t, s, "a")
		ask()
		want(t, w, "ADDED a3", "BOOKMARK 2")
		s.FreezeProgress(false)
		ask()
		want(t, w, "BOOKMARK 3")

		s.DropProgress(true)
		ask()
		want(t, w)
		s.DropProgress(false)

		s.SendProgress(1)
		want(t, w, "BOOKMARK 1")

		s.OvertakeProgress(true)
		s.Hold()
		// The first event leaves the queue before the answer is put in front.
		put(t, s, "b")
		put(t, s, "c")
		synctest.Wait()
		ask()
		s.Release()
		want(t, w, "ADDED b4", "BOOKMARK 5", "ADDED c5")
	})
}

// tap is a progress.Tap that remembers.
type tap struct {
	kick   func(context.Context) error
	told   []string
	closed bool
}

func (t *tap) Opened(kick func(context.Context) error) { t.kick = kick }
func (t *tap) Revision(revision uint64, events int) {
	t.told = append(t.told, fmt.Sprintf("%d:%d", revision, events))
}
func (t *tap) Progress(revision uint64) bool {
	t.told = append(t.told, fmt.Sprintf("progress %d", revision))
	return false
}
func (t *tap) Closed() { t.closed = true }

func TestTap(t *testing.T) {
	inBubble(t, memstorage.Config{Tapped: true}, func(t *testing.T, s *memstorage.Storage) {
		put(t, s, "a")
		var told tap
		w := open(t, progress.WithTap(t.Context(), &told), s, storage.ListOptions{SendInitialEvents: new(true)})
		other := open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "2"})
		want(t, w, "ADDED a2", "END 2")
		put(t, s, "a", "b", "c")
		put(t, s, "d")
		want(t, w, "MODIFIED a3", "ADDED b3", "ADDED c3", "ADDED d4")
		if want := []string{"3:3", "4:1"}; !slices.Equal(told.told, want) {
			t.Errorf("the tap was told %q, want %q", told.told, want)
		}
		got(other)
		if err := told.kick(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, w, "BOOKMARK 4")
		if last := told.told[len(told.told)-1]; last != "progress 4" {
			t.Errorf("the tap was told %q last, want the progress", last)
		}
		want(t, other) // a kick is for one watch
		w.Stop()
		synctest.Wait()
		if err := told.kick(t.Context()); err == nil || !told.closed {
			t.Errorf("after the end of the watch: kick says %v, closed is %v", err, told.closed)
		}
		if calls := s.Calls(); calls.Kicks != 2 || calls.Progress != 0 || calls.Watch != 2 {
			t.Errorf("counted %+v", calls)
		}
	})
}

func TestUntappedIgnoresTap(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		var told tap
		w := open(t, progress.WithTap(t.Context(), &told), s, storage.ListOptions{ResourceVersion: "1"})
		put(t, s, "a")
		want(t, w, "ADDED a2")
		w.Stop()
		synctest.Wait()
		if told.kick != nil || told.told != nil || told.closed {
			t.Errorf("the tap of a storage without a progress.Watcher was used: %+v", told)
		}
	})
}

func TestRestore(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		kept := put(t, s, "a")
		put(t, s, "a", "b")
		w := open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "3"})
		if err := s.Backend().Restore(kept); err != nil {
			t.Fatal(err)
		}
		want(t, w, "closed")
		put(t, s, "c")
		want(t, open(t, t.Context(), s, storage.ListOptions{SendInitialEvents: new(true)}), "ADDED a2", "ADDED c3", "END 3")
	})
}

func TestCompactedWatch(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		put(t, s, "a")
		put(t, s, "a")
		if err := s.Backend().Compact(3); err != nil {
			t.Fatal(err)
		}
		want(t, open(t, t.Context(), s, storage.ListOptions{ResourceVersion: "2"}), "ERROR 410", "closed")
	})
}

func TestOnRevision(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		refused := errors.New("refused")
		s.OnRevision(func(_ context.Context, revision uint64) (uint64, error) { return revision, refused })
		if _, err := s.GetCurrentResourceVersion(t.Context()); !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
		s.OnRevision(nil)
		if revision, err := s.GetCurrentResourceVersion(t.Context()); revision != 1 || err != nil {
			t.Errorf("got %d, %v", revision, err)
		}
	})
}

func TestTxn(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		put(t, s, "a")
		for name, changes := range map[string][]memstorage.Change{
			"a missing key": {memstorage.Put("/pods/ns/b", pod("b")), memstorage.Delete("/pods/ns/z")},
			"a key twice":   {memstorage.Put("/pods/ns/b", pod("b")), memstorage.Put("/pods/ns/b", pod("b"))},
		} {
			if _, err := s.Backend().Txn(changes...); err == nil || s.Backend().Revision() != 2 {
				t.Errorf("%s: got %v at revision %d", name, err, s.Backend().Revision())
			}
		}
		var list example.PodList
		if err := s.GetList(t.Context(), "/pods/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 {
			t.Errorf("a transaction that failed left %d objects", len(list.Items))
		}
	})
}

func TestRefusesTimeToLive(t *testing.T) {
	inBubble(t, memstorage.Config{}, func(t *testing.T, s *memstorage.Storage) {
		if err := s.Create(t.Context(), "/pods/ns/a", pod("a"), nil, 1); err == nil {
			t.Error("Create took a time to live")
		}
		put(t, s, "a")
		err := s.GuaranteedUpdate(t.Context(), "/pods/ns/a", &example.Pod{}, false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				return input, new(uint64(1)), nil
			}, nil)
		if err == nil {
			t.Error("GuaranteedUpdate took a time to live")
		}
	})
}

func TestCloseJoins(t *testing.T) {
	// A goroutine that is left behind fails the bubble.
	synctest.Test(t, func(t *testing.T) {
		backend := memstorage.NewBackend()
		s := newStorage(t, backend, memstorage.Config{})
		w := open(t, context.Background(), s, storage.ListOptions{ResourceVersion: "1"})
		s.Hold()
		put(t, s, "a")
		synctest.Wait()
		backend.Close()
		backend.Close()
		want(t, w, "closed")
		if _, err := s.Watch(t.Context(), "/pods/", storage.ListOptions{Recursive: true}); err == nil {
			t.Error("a closed backend opened a watch")
		}
	})
}
