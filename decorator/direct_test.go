package decorator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// turnstile is a raw storage whose lists are answered when the test lets them:
// after they have read, as a big list whose answer is long under way.
type turnstile struct {
	spy
	release     chan struct{}
	lists       atomic.Int64
	now, utmost atomic.Int64
}

// directRig is a rig whose cache cannot be verified, with the turnstile behind it.
func directRig(t *testing.T, f func(*testing.T, *rig, *turnstile)) {
	t.Helper()
	gate := &turnstile{}
	s := setup{cfg: Config{OnUnverified: UnverifiedDirect}, alike: true, raw: func(raw storage.Interface) storage.Interface {
		gate.Interface = raw
		return gate
	}}
	bubble(t, s, func(t *testing.T, r *rig) {
		gate.release = make(chan struct{})
		gate.onList = func(_ context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
			gate.lists.Add(1)
			gate.utmost.Store(max(gate.utmost.Load(), gate.now.Add(1)))
			defer gate.now.Add(-1)
			err := pass()
			<-gate.release
			return err
		}
		r.put("a")
		settled()
		r.cached.Hold()
		r.memory.Bump()
		f(t, r, gate)
	})
}

// checkIdle looks for what direct lists have left behind.
func (r *rig) checkIdle() {
	r.t.Helper()
	settled()
	d := r.store.direct
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free != maxDirect || d.waiting != 0 || len(d.byFlow)+len(d.open)+len(d.busy) != 0 || !d.queue.empty() {
		r.t.Errorf("%d places of %d are free, %d callers wait, in flows %v; asks: %d open, %d busy; the queue is empty: %t",
			d.free, maxDirect, d.waiting, d.byFlow, len(d.open), len(d.busy), d.queue.empty())
	}
}

// unverified returns when the reads that are under way have given up on the cache.
func unverified() {
	time.Sleep(defaultMaxWait)
	settled()
}

// TestDirectShares: equal requests share lists, and each caller gets objects of its
// own.
func TestDirectShares(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		const callers = 1000
		lists := make([]example.PodList, callers)
		var done sync.WaitGroup
		for i := range callers {
			done.Go(func() {
				if err := r.store.GetList(t.Context(), "/pods/", everything(""), &lists[i]); err != nil {
					t.Error(err)
				}
			})
		}
		unverified()
		time.Sleep(3 * defaultMaxWait) // a list that takes long is no turn that does not come
		close(gate.release)
		done.Wait()
		if got := gate.lists.Load(); got < 1 || got > 2 {
			t.Errorf("%d equal requests took %d lists, want 2 at most", callers, got)
		}
		for i := range lists {
			if !slices.Equal(names(&lists[i]), []string{"a"}) {
				t.Fatalf("caller %d got %q", i, names(&lists[i]))
			}
			lists[i].Items[0].Name = "mine"
			if lists[i].Items[0].Labels == nil {
				lists[i].Items[0].Labels = map[string]string{}
			}
			lists[i].Items[0].Labels["mine"] = fmt.Sprint(i)
		}
		for i := range lists {
			if got := lists[i].Items[0].Labels["mine"]; got != fmt.Sprint(i) {
				t.Fatalf("caller %d shares its objects with caller %s", i, got)
			}
		}
		if n := count(t, r.backend.metrics.DirectLists.WithLabelValues("", "pods", outcomeOK.String())); n != float64(gate.lists.Load()) {
			t.Errorf("%v direct lists were counted, want %d", n, gate.lists.Load())
		}
	})
}

// TestDirectJoinRule: a request does not join a list that was sent before it came.
func TestDirectJoinRule(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		first := make(chan error)
		go func() { first <- reads("")["list"](t.Context(), r.store) }()
		unverified()
		if gate.lists.Load() != 1 {
			t.Fatalf("%d lists are under way, want 1", gate.lists.Load())
		}
		r.put("b") // acknowledged after the first list has read
		second := make(chan []string)
		go func() {
			pods, err := list(t.Context(), r.store, everything(""))
			if err != nil {
				t.Error(err)
			}
			second <- names(pods)
		}()
		unverified()
		close(gate.release)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if got := <-second; !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("a request after the write of b was answered with %q", got)
		}
	})
}

// TestDirectIsBounded: different requests do not share, five are served at once, and the
// others wait for their turn, as long as reads wait for a cache.
func TestDirectIsBounded(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		const requests = 12
		errs := make(chan error, requests)
		for i := range requests {
			go func() {
				opts := everything("")
				opts.Predicate.Limit = int64(100 + i)
				_, err := list(t.Context(), r.store, opts)
				errs <- err
			}()
		}
		unverified()
		time.Sleep(defaultMaxWait - time.Nanosecond)
		settled()
		if len(errs) > 0 {
			t.Errorf("%v before its time to wait was over", <-errs)
		}
		time.Sleep(time.Nanosecond)
		settled()
		busy := 0
		for len(errs) > 0 {
			err := <-errs
			checkStatus(t, err, 429)
			checkChain(t, err, ErrBusy, nil)
			busy++
		}
		close(gate.release)
		for range requests - busy {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if busy != requests-maxDirect || gate.utmost.Load() != maxDirect {
			t.Errorf("%d of %d requests were refused and %d listed at once, want %d at once", busy, requests, gate.utmost.Load(), maxDirect)
		}
		if n := r.reads(verbList, routeFloor, outcomeBusy); n != float64(busy) {
			t.Errorf("%v reads were counted as busy, want %d", n, busy)
		}
		r.checkIdle()
	})
}

// TestDirectTellsRequestsApart: what makes two requests differ keeps them apart.
func TestDirectTellsRequestsApart(t *testing.T) {
	base := func() storage.ListOptions {
		opts := everything("")
		opts.Predicate = selecting("", "")
		return opts
	}
	seen := map[string]string{}
	for name, change := range map[string]func(key *string, opts *storage.ListOptions){
		"base":      func(*string, *storage.ListOptions) {},
		"key":       func(key *string, _ *storage.ListOptions) { *key = "/pods/ns/" },
		"recursive": func(_ *string, o *storage.ListOptions) { o.Recursive = false },
		"version":   func(_ *string, o *storage.ListOptions) { o.ResourceVersion = "5" },
		"match":     func(_ *string, o *storage.ListOptions) { o.ResourceVersionMatch = exactly },
		"limit":     func(_ *string, o *storage.ListOptions) { o.Predicate.Limit = 5 },
		"continue":  func(_ *string, o *storage.ListOptions) { o.Predicate.Continue = tokenAt9 },
		"label":     func(_ *string, o *storage.ListOptions) { o.Predicate = selecting("app=x", "") },
		"field":     func(_ *string, o *storage.ListOptions) { o.Predicate = selecting("", "metadata.name=x") },
		"both":      func(_ *string, o *storage.ListOptions) { o.Predicate = selecting("app=x", "metadata.name=x") },
	} {
		key, opts := "/pods/", base()
		change(&key, &opts)
		print := fingerprint(key, &opts)
		if other, there := seen[print]; there {
			t.Errorf("%q and %q share their lists", name, other)
		}
		seen[print] = name
		if again := fingerprint(key, &opts); again != print {
			t.Errorf("%q has two fingerprints", name)
		}
	}
}

// TestDirectKeepsPages: the first page of a direct list has a token that the cache
// understands once it has caught up.
func TestDirectKeepsPages(t *testing.T) {
	for _, rv := range []string{"", "0"} {
		t.Run("rv "+rv, func(t *testing.T) {
			directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
				close(gate.release)
				r.put("b", "c")
				first, err := list(t.Context(), r.store, listOptions{rv: rv, limit: 2}.options())
				if err != nil || !slices.Equal(names(first), []string{"a", "b"}) {
					t.Fatalf("got %q, %v", names(first), err)
				}
				r.put("d")
				r.cached.Release()
				settled()
				second, err := list(t.Context(), r.store, listOptions{limit: 2, token: first.Continue}.options())
				if err != nil || !slices.Equal(names(second), []string{"c"}) || second.ResourceVersion != first.ResourceVersion {
					t.Errorf("got %q at %s, %v; want c at %s", names(second), second.ResourceVersion, err, first.ResourceVersion)
				}
			})
		})
	}
}

// TestDirectCallerGoes: a caller's own deadline ends its wait for a direct list.
func TestDirectCallerGoes(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		ctx, cancel := context.WithTimeout(t.Context(), defaultMaxWait+time.Second)
		defer cancel()
		start := time.Now()
		_, err := list(ctx, r.store, everything(""))
		checkStatus(t, err, 504)
		checkChain(t, err, ErrNotFresh, context.DeadlineExceeded)
		if waited := time.Since(start); waited != defaultMaxWait+time.Second {
			t.Errorf("waited %v", waited)
		}
		ctx, cancel = context.WithCancel(t.Context())
		canceled := make(chan error)
		go func() {
			_, err := list(ctx, r.store, everything(""))
			canceled <- err
		}()
		unverified()
		cancel()
		if err := <-canceled; err != context.Canceled {
			t.Errorf("got %v of a caller that went away", err)
		}
		close(gate.release)
	})
}

// TestDirectTimesOut: a list that the storage does not answer ends, also for callers
// without a deadline.
func TestDirectTimesOut(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		gate.onList = func(ctx context.Context, _ storage.ListOptions, _ runtime.Object, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := list(t.Context(), r.store, everything(""))
		checkStatus(t, err, 504)
		checkChain(t, err, ErrNotFresh, context.DeadlineExceeded)
	})
}

// TestDirectKeepsErrors: an error of the storage itself goes out as it is.
func TestDirectKeepsErrors(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		gate.onList = func(context.Context, storage.ListOptions, runtime.Object, func() error) error { return errRecorded }
		if _, err := list(t.Context(), r.store, everything("")); err != errRecorded {
			t.Errorf("got %v", err)
		}
	})
}

// TestDirectWithoutRaw: without a storage to list, Direct fails as Fail does.
func TestDirectWithoutRaw(t *testing.T) {
	bubble(t, setup{cfg: Config{OnUnverified: UnverifiedDirect}}, func(t *testing.T, r *rig) {
		r.store.resource.Raw = nil
		r.cached.Hold()
		r.memory.Bump()
		for _, verb := range []string{"list", "get"} {
			if err := reads("0")[verb](t.Context(), r.store); !errors.Is(err, ErrNotFresh) {
				t.Errorf("%s: got %v", verb, err)
			}
		}
	})
}

// TestDirectTriesTwice: those whose shared list failed have it made once more, and no more;
// whose list it was alone has not.
func TestDirectTriesTwice(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		gate.onList = func(context.Context, storage.ListOptions, runtime.Object, func() error) error {
			if gate.lists.Add(1) > 50 {
				return nil
			}
			<-gate.release
			return errors.New("corrupt")
		}
		const callers = 10
		answers := make(chan error, callers)
		for range callers {
			go func() {
				_, err := list(t.Context(), r.store, everything(""))
				answers <- err
			}()
			unverified()
		}
		close(gate.release)
		for range callers {
			if err := <-answers; err == nil {
				t.Error("it is answered")
			}
		}
		// The first caller's own, the one that the others shared, and one more, or some where
		// others ask again when that has been sent; and not one for each caller.
		if lists := gate.lists.Swap(0); lists < 3 || lists > 7 {
			t.Errorf("%d lists were made", lists)
		}
		if _, err := list(t.Context(), r.store, everything("")); err == nil || gate.lists.Load() != 1 {
			t.Errorf("alone: %v, %d lists were made", err, gate.lists.Load())
		}
	})
}

// TestDirectTimesOutOnce: those whose shared list took too long do not wait for another.
func TestDirectTimesOutOnce(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		gate.onList = func(ctx context.Context, _ storage.ListOptions, _ runtime.Object, _ func() error) error {
			gate.lists.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		answers := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := list(t.Context(), r.store, everything(""))
				answers <- err
			}()
			unverified()
		}
		for range 3 {
			if err := <-answers; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		if lists := gate.lists.Load(); lists != 2 {
			t.Errorf("%d lists were made", lists)
		}
	})
}
