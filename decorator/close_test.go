package decorator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// TestCloseWakesWaiters: a thousand callers that wait, for whatever, get ErrClosed at
// once. A goroutine that is left behind fails the bubble.
func TestCloseWakesWaiters(t *testing.T) {
	const callers = 1000
	for name, row := range map[string]struct {
		setup setup
		fault func(*rig)
	}{
		"for the cache":                 {setup{}, func(r *rig) { r.cached.Hold() }},
		"for the cache, without a Feed": {setup{feedless: true}, func(r *rig) { r.cached.Hold() }},
		"for floors":                    {setup{}, func(r *rig) { r.blockFloors() }},
		"for the fill":                  {setup{filling: true, cfg: Config{ReadyWait: time.Second}}, func(*rig) {}},
		"for the fill, without a Feed":  {setup{filling: true, feedless: true, cfg: Config{ReadyWait: time.Second}}, func(*rig) {}},
		"beside each other":             {setup{cfg: Config{Shadow: true, ZeroVersion: ZeroVerified}}, func(r *rig) { r.blockFloors() }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, row.setup, func(t *testing.T, r *rig) {
				if !row.setup.filling {
					r.put("a")
					settled()
				}
				row.fault(r)
				r.memory.Bump()
				errs := make(chan error, callers)
				var waiting sync.WaitGroup
				for i := range callers {
					read := []func(context.Context, storage.Interface) error{reads("0")["list"], watchOne, reads("0")["get"]}[i%3]
					if row.setup.filling {
						read = reads("0")["list"] // a Get goes to the storage
					}
					waiting.Go(func() { errs <- read(t.Context(), r.store) })
				}
				settled()
				if !row.setup.cfg.Shadow && len(errs) != 0 {
					t.Fatalf("%d of %d did not wait, such as: %v", len(errs), callers, <-errs)
				}
				start := time.Now()
				r.closeBackend()
				waiting.Wait()
				if waited := time.Since(start); waited != 0 && !row.setup.feedless {
					t.Errorf("Close took %v", waited)
				}
				for range callers {
					err := <-errs
					switch {
					case row.setup.cfg.Shadow:
						if err != nil {
							t.Errorf("got %v of a read that is only watched", err)
						}
					case failedClosed(err):
					default:
						t.Errorf("got %v, want ErrClosed", err)
					}
				}
				r.closeBackend()
				if row.setup.filling || row.setup.cfg.Shadow {
					return
				}
				for verb, read := range reads("0") {
					if err := read(t.Context(), r.store); !failedClosed(err) {
						t.Errorf("%s of a closed Store: got %v", verb, err)
					}
				}
			})
		})
	}
}

// watchOne opens a watch and waits for its first event.
func watchOne(ctx context.Context, s storage.Interface) error {
	w, err := s.Watch(ctx, "/pods/", everything("0"))
	if err != nil {
		return err
	}
	defer w.Stop()
	return failureOf(<-w.ResultChan())
}

// failedClosed also knows ErrClosed as the ERROR event of a watch, which has no
// chain.
func failedClosed(err error) bool {
	return errors.Is(err, ErrClosed) || err != nil && err.Error() == newFailure(ErrClosed, nil, true).Error()
}

// TestCloseEndsDirectLists: a list of the storage that is under way ends, too.
func TestCloseEndsDirectLists(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() { errs <- reads("")["list"](t.Context(), r.store) }()
		}
		unverified()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			r.closeBackend()
		}()
		settled()
		for range cap(errs) {
			if err := <-errs; !failedClosed(err) {
				t.Errorf("got %v", err)
			}
		}
		close(gate.release) // Close waits for it
		<-closed
	})
}

// TestCloseOneStore: a Store that goes (its custom resource was deleted) disturbs no
// other of the Backend, and is let go of.
func TestCloseOneStore(t *testing.T) {
	for name, s := range map[string]setup{"feed": {}, "no feed": {feedless: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				other := r.another("/nodes/")
				for _, s := range []*Store{other, other} {
					s.Close()
				}
				r.put("a")
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Errorf("the other Store: %v", err)
				}
				r.backend.mu.Lock()
				_, kept := r.backend.open[other]
				r.backend.mu.Unlock()
				if kept {
					t.Error("the Backend holds on to a Store that was closed")
				}
			})
		})
	}
}

// another is a Store of another resource of the same Backend, over a cache that
// somebody else built.
func (r *rig) another(prefix string) *Store {
	r.t.Helper()
	raw := memory(r.t, r.memory, memstorage.Config{Prefix: prefix})
	_, cache := newCache(r.t, prefix, raw, raw)
	s, err := r.backend.Wrap(cache, Resource{GroupResource: pods, Prefix: prefix, NewList: newPodList})
	if err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Second)
	return s
}

// TestClosedBackend: nothing is made of it any more, and nothing is left of what
// could not be made.
func TestClosedBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBackend(Config{Source: source(1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		res := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList}
		if s, err := b.Wrap(&recorder{}, res); s != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("Wrap: got %v, %v", s, err)
		}
		if f, err := b.Feed(&recorder{}, res); f != nil || !errors.Is(err, ErrClosed) {
			t.Errorf("Feed: got %v, %v", f, err)
		}
	})
}

// TestSharedFloors: the Stores of a Backend share its revision reads, however many
// callers each has.
func TestSharedFloors(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		other := r.another("/nodes/")
		newest := r.put("a")
		release := make(chan struct{})
		r.writer.OnRevision(func(_ context.Context, revision uint64) (uint64, error) {
			<-release
			return revision, nil
		})
		before := r.floorReads()
		var callers sync.WaitGroup
		for s, prefix := range map[*Store]string{r.store: "/pods/", other: "/nodes/"} {
			for range 500 {
				callers.Go(func() {
					pods, err := listUnder(t.Context(), s, prefix, everything(""))
					if rv := pods.ResourceVersion; err != nil || rv != fmt.Sprint(newest) {
						t.Errorf("%s: got %q, %v; want %d", prefix, rv, err, newest)
					}
				})
			}
		}
		settled()
		close(release)
		callers.Wait()
		if got := r.floorReads() - before; got < 1 || got > 2 {
			t.Errorf("1000 callers of two Stores took %d reads, want 2 at most", got)
		}
		if n := r.cached.Calls().Kicks; n > 2 {
			t.Errorf("500 callers of one Store took %d kicks", n)
		}
	})
}
