package decorator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

func as(ctx context.Context, name string, groups ...string) context.Context {
	return apirequest.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups})
}

// slowLists makes each list of the storage take a while.
func slowLists(takes time.Duration) setup {
	gate := &turnstile{}
	gate.onList = func(ctx context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
		time.Sleep(takes)
		return pass()
	}
	return setup{cfg: Config{Strategy: StrategyDirect}, raw: func(raw storage.Interface) storage.Interface {
		gate.Interface = raw
		return gate
	}}
}

// TestDirectIsFair: a reader who keeps 30 different lists under way does not deny a LIST to
// anybody else.
func TestDirectIsFair(t *testing.T) {
	const takes = 200 * time.Millisecond
	bubble(t, slowLists(takes), func(t *testing.T, r *rig) {
		r.put("a")
		var stop atomic.Bool
		var readers sync.WaitGroup
		for i := range 30 {
			readers.Go(func() {
				opts := everything("")
				for opts.Predicate.Limit = int64(100 * (i + 1)); !stop.Load(); opts.Predicate.Limit++ {
					if _, err := list(as(t.Context(), "reader"), r.store, opts); err != nil && !errors.Is(err, ErrBusy) {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		settled()
		refused, longest := 0, time.Duration(0)
		for i := range 82 {
			began := time.Now()
			opts := everything("")
			opts.Predicate.Limit = int64(1_000_000 + i)
			switch _, err := list(as(t.Context(), "admin", user.SystemPrivilegedGroup), r.store, opts); {
			case errors.Is(err, ErrBusy):
				refused++
			case err != nil:
				t.Error(err)
			}
			longest = max(longest, time.Since(began))
			time.Sleep(7 * time.Millisecond)
		}
		stop.Store(true)
		readers.Wait()
		if refused > 0 {
			t.Errorf("%d of 82 LISTs of an administrator were refused beside one reader", refused)
		}
		// The list that has a place, one of the reader's that is before it, and its own.
		if longest > 3*takes {
			t.Errorf("a LIST of an administrator took %v, where a list takes %v", longest, takes)
		}
	})
}

// TestDirectCopiesAreFair: those who share a list do not keep others waiting until each of
// them has a copy.
func TestDirectCopiesAreFair(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		const callers = 3 * copiesPerTurn
		ask := func(name string, limit int64) error {
			opts := everything("")
			opts.Predicate.Limit = limit
			pods, err := list(as(t.Context(), name), r.store, opts)
			if err == nil && len(pods.Items) != 1 {
				t.Errorf("%s: got %q", name, names(pods))
			}
			return err
		}
		var done sync.WaitGroup
		for i := range maxDirect {
			for range callers {
				done.Go(func() {
					if err := ask("reader", int64(100+i)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		unverified()
		for range maxDirect {
			gate.release <- struct{}{} // the list of the first caller of each kind
		}
		settled()
		if got := gate.now.Load(); got != maxDirect {
			t.Fatalf("%d lists are under way, want %d", got, maxDirect)
		}
		done.Go(func() {
			if err := ask("admin", 7); err != nil {
				t.Error(err)
			}
		})
		unverified()
		before := gate.lists.Load()
		close(gate.release) // the lists that all others of a kind share
		done.Wait()
		// One more is the administrator's. Another is for those who had no copy yet when
		// their list was let go of for it.
		if got := gate.lists.Load() - before; got < 2 {
			t.Errorf("%d lists were made after that: all callers of one had their copies before somebody else's turn", got)
		}
		r.checkIdle()
	})
}

// TestDirectSharesAcrossFlows: a list that several flows wait for is sent when it is the turn
// of the first of them, and is made for all.
func TestDirectSharesAcrossFlows(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		var done sync.WaitGroup
		ask := func(name string, limit int64) {
			done.Go(func() {
				opts := everything("")
				opts.Predicate.Limit = limit
				if _, err := list(as(t.Context(), name), r.store, opts); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		for i := range 4 * maxDirect {
			ask("reader", int64(100+i))
			time.Sleep(time.Millisecond) // they give up on the cache one after the other
		}
		ask("admin", int64(100+4*maxDirect-1)) // the reader's last
		ask("other", int64(100+4*maxDirect-1))
		unverified()
		close(gate.release)
		done.Wait()
		if got := gate.lists.Load(); got != 4*maxDirect {
			t.Errorf("%d lists for %d requests that differ", got, 4*maxDirect)
		}
		r.checkIdle()
	})
}

// TestDirectQueueIsBounded: callers beyond a bound are refused at once, but for those of a flow
// that has little in the queue.
func TestDirectQueueIsBounded(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		d, opts := r.store.direct, everything("")
		enter := func(name string) error {
			_, err := d.enter(as(t.Context(), name), "", "/pods/", &opts)
			return err
		}
		for range maxDirect + maxWaiting {
			if err := enter("reader"); err != nil {
				t.Fatal(err)
			}
		}
		if err := enter("reader"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more got %v", err)
		}
		// The first of a flow counts the flows without itself.
		for range maxWaiting / 2 {
			if err := enter("admin"); err != nil {
				t.Fatal(err)
			}
		}
		if err := enter("admin"); !errors.Is(err, ErrBusy) {
			t.Errorf("one more got %v", err)
		}
		d.lists.Add(-maxDirect) // nobody lists
	})
}

// TestDirectFlows: FlowOf says whom a list is for.
func TestDirectFlows(t *testing.T) {
	s := slowLists(time.Second)
	s.cfg.FlowOf = func(ctx context.Context) string { return ctx.Value(tenantOf{}).(string) }
	bubble(t, s, func(t *testing.T, r *rig) {
		var done sync.WaitGroup
		for range 4 * maxDirect {
			done.Go(func() {
				_, _ = list(as(context.WithValue(t.Context(), tenantOf{}, "red"), "reader"), r.store, everything(""))
			})
		}
		settled()
		began := time.Now()
		if _, err := list(as(context.WithValue(t.Context(), tenantOf{}, "blue"), "reader"), r.store, everything("")); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v, where a list takes a second", took)
		}
		done.Wait()
	})
}

// TestDirectTurnCountsFromArrival: where no cache was waited for, what came before the queue is
// part of the wait for a turn.
func TestDirectTurnCountsFromArrival(t *testing.T) {
	gate := &turnstile{}
	blind := Config{Probe: func(ctx context.Context) (Properties, error) { <-ctx.Done(); return Properties{}, ctx.Err() }}
	wrap := func(raw storage.Interface) storage.Interface { gate.Interface = raw; return gate }
	bubble(t, setup{cfg: blind, raw: wrap}, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		gate.onList = func(_ context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
			<-release
			return pass()
		}
		took := make(chan time.Duration, maxDirect+1)
		for range cap(took) {
			go func() {
				began := time.Now()
				if _, err := list(t.Context(), r.store, everything("")); errors.Is(err, ErrBusy) {
					took <- time.Since(began)
				}
			}()
		}
		if got := <-took; got != defaultMaxWait {
			t.Errorf("refused after %v, of which the look at the backend took %v", got, lookTime)
		}
		close(release)
		settled()
	})
}

// TestDirectPagesAreBounded: pages that go on from a direct list wait for their turn, too.
func TestDirectPagesAreBounded(t *testing.T) {
	gate := &turnstile{}
	wrap := func(raw storage.Interface) storage.Interface { gate.Interface = raw; return gate }
	bubble(t, setup{cfg: Config{Strategy: StrategyDirect}, raw: wrap}, func(t *testing.T, r *rig) {
		r.put("a", "b")
		opts := everything("")
		opts.Predicate.Limit = 1
		first, err := list(t.Context(), r.store, opts)
		if err != nil || first.Continue == "" {
			t.Fatalf("got %v, %v", first, err)
		}
		opts.Predicate.Continue = first.Continue
		release := make(chan struct{})
		gate.onList = func(_ context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
			gate.lists.Add(1)
			<-release
			return pass()
		}
		var done sync.WaitGroup
		for range 3 * maxDirect {
			done.Go(func() {
				if pods, err := list(t.Context(), r.store, opts); err != nil || len(pods.Items) != 1 {
					t.Errorf("got %q, %v", names(pods), err)
				}
			})
		}
		settled()
		if got := gate.lists.Load(); got != maxDirect {
			t.Errorf("%d pages are under way at once, want %d", got, maxDirect)
		}
		close(release)
		done.Wait()
		r.checkIdle()
	})
}

// TestForeignListWaitsForItsTurn: a list of a key that lacks Resource.Prefix waits as long as any
// other direct list.
func TestForeignListWaitsForItsTurn(t *testing.T) {
	gate := &turnstile{}
	wrap := func(raw storage.Interface) storage.Interface { gate.Interface = raw; return gate }
	bubble(t, setup{raw: wrap}, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		gate.onList = func(context.Context, storage.ListOptions, runtime.Object, func() error) error {
			<-release
			return nil
		}
		refused := make(chan time.Duration, maxDirect+1)
		for range cap(refused) {
			go func() {
				began := time.Now()
				if _, err := listUnder(t.Context(), r.store, "/elsewhere/", everything("")); errors.Is(err, ErrBusy) {
					refused <- time.Since(began)
				}
			}()
		}
		if got := <-refused; got != defaultMaxWait {
			t.Errorf("refused after %v, want %v", got, defaultMaxWait)
		}
		close(release)
		settled()
	})
}
