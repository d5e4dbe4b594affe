package decorator

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// provable is a setup without progress, whose caches are brought to a floor by ranges.
func provable(t *testing.T, cfg Config, f func(*testing.T, *rig)) {
	t.Helper()
	if cfg.Strategy == "" {
		cfg.Strategy = StrategyRangeProof
	}
	bubble(t, setup{cfg: cfg, proves: true}, func(t *testing.T, r *rig) {
		r.cached.DropProgress(true)
		f(t, r)
	})
}

// lists lists on a goroutine of its own, which is blocked, or done, when it returns.
func (r *rig) lists() <-chan []string {
	r.t.Helper()
	answered := make(chan []string, 1)
	go func() {
		pods, err := list(r.t.Context(), r.store, everything(""))
		if err != nil {
			r.t.Error(err)
		}
		answered <- names(pods)
	}()
	settled()
	return answered
}

func wantNames(t *testing.T, answered <-chan []string, want ...string) {
	t.Helper()
	settled()
	select {
	case got := <-answered:
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	default:
		t.Error("no answer")
	}
}

func wantNoAnswer(t *testing.T, answered <-chan []string) {
	t.Helper()
	settled()
	select {
	case got := <-answered:
		t.Errorf("got %q, want none yet", got)
	default:
	}
}

// TestRangeProof: after a write elsewhere LISTs share one range, and ask for no progress.
func TestRangeProof(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.wantFresh(0)
		before := r.proofs.Load()
		r.memory.Bump()
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if pods, err := list(t.Context(), r.store, everything("")); err != nil || len(pods.Items) != 1 {
					t.Errorf("got %v, %v", names(pods), err)
				}
			})
		}
		callers.Wait()
		if got := r.proofs.Load() - before; got < 1 || got > 2 {
			t.Errorf("%d ranges for 1,000 LISTs", got)
		}
		if got := r.cached.Calls(); got.Kicks+got.Progress != 0 {
			t.Errorf("%d requests for progress", got.Kicks+got.Progress)
		}
		settled()
		before = r.proofs.Load()
		time.Sleep(time.Minute)
		if got := r.proofs.Load() - before; got != 0 {
			t.Errorf("%d ranges while nobody waits", got)
		}
	})
}

// TestRangeProofWaitsForEvents: while an event is on its way nothing is proven, whatever
// it is, and a range is not made again and again.
func TestRangeProofWaitsForEvents(t *testing.T) {
	for name, test := range map[string]struct {
		change memstorage.Change
		want   []string
	}{
		"created": {memstorage.Put("/pods/ns/c", pod("ns", "c")), []string{"a", "b", "c"}},
		"changed": {memstorage.Put("/pods/ns/b", marked("b")), []string{"a", "b"}},
		"deleted": {memstorage.Delete("/pods/ns/b"), []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			provable(t, Config{}, func(t *testing.T, r *rig) {
				r.put("a")
				r.put("b")
				settled()
				r.cached.Hold()
				r.txn(test.change)
				r.memory.Bump()
				answered := r.lists()
				time.Sleep(time.Second)
				wantNoAnswer(t, answered)
				if got := r.proofs.Load(); got < 3 || got > 10 {
					t.Errorf("%d ranges in a second", got)
				}
				r.cached.Release()
				wantNames(t, answered, test.want...)
			})
		})
	}
}

// TestRangeProofPasses: objects that came and went before a proof do not reach the cache
// after it, which goes on from there.
func TestRangeProofPasses(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		for _, name := range []string{"x", "y", "x"} {
			r.put(name)
			r.txn(memstorage.Put("/pods/ns/"+name, marked(name)))
			r.txn(memstorage.Delete("/pods/ns/" + name))
			wantNames(t, r.lists(), "a")
		}
		r.cached.Release()
		settled()
		r.put("b")
		wantNames(t, r.lists(), "a", "b")
		r.memory.Bump()
		wantNames(t, r.lists(), "a", "b")
		if got := r.breaches(); got != 0 {
			t.Errorf("%v breaches", got)
		}
	})
}

// TestRangeProofDisproved: a range that lies is found out by the first event that shows it,
// or when there is none that should have come. It is never asked again.
func TestRangeProofDisproved(t *testing.T) {
	lie := func(r *rig, count int64) {
		r.proving = func(_ context.Context, p Proof) (Proof, error) {
			return Proof{Revision: p.Revision, Count: count}, nil
		}
	}
	for name, test := range map[string]struct {
		changes []memstorage.Change
		then    []memstorage.Change
	}{
		"deleted": {[]memstorage.Change{memstorage.Delete("/pods/ns/a")}, nil},
		"changed": {[]memstorage.Change{memstorage.Put("/pods/ns/a", marked("a"))}, nil},
		"created": {[]memstorage.Change{memstorage.Put("/pods/ns/b", pod("ns", "b"))}, []memstorage.Change{memstorage.Put("/pods/ns/a", marked("a"))}},
	} {
		t.Run(name, func(t *testing.T) {
			only := sane
			only.ProgressAnswered = VerdictNo
			provable(t, Config{Strategy: StrategyAuto}, func(t *testing.T, r *rig) {
				r.backend.SetProperties(only)
				r.wantStrategy(StrategyRangeProof)
				r.put("a")
				settled()
				r.cached.Hold()
				lie(r, 1)
				r.txn(test.changes...)
				wantNames(t, r.lists(), "a") // what a lie can do
				r.txn(test.then...)
				r.cached.Release()
				settled()
				r.wantStrategy(StrategyDirect)
				if got := r.breaches(); got != 1 {
					t.Errorf("%v breaches", got)
				}
				time.Sleep(time.Minute)
				r.wantFresh(0)
				r.wantStrategy(StrategyDirect)
			})
		})
	}
}

// TestRangeProofUnimplemented: a backend that answers no ranges is listed directly, and
// ranges are tried again.
func TestRangeProofUnimplemented(t *testing.T) {
	only := sane
	only.ProgressAnswered = VerdictNo
	provable(t, Config{Strategy: StrategyAuto}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(only)
		r.wantFresh(0)
		r.wantStrategy(StrategyRangeProof)
		r.proving = func(context.Context, Proof) (Proof, error) { return Proof{}, errors.New("Unimplemented") }
		r.wantFresh(0)
		r.memory.Bump()
		r.wantFresh(0)
		r.wantStrategy(StrategyDirect)
		r.proving = nil
		time.Sleep(maxTrialEach)
		r.wantFresh(0)
		time.Sleep(trialTime)
		r.wantStrategy(StrategyRangeProof)
	})
}

// TestRangeProofsAreBounded: all resources of a backend make so many at once.
func TestRangeProofsAreBounded(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		for range maxDirect {
			r.backend.proofs <- struct{}{}
		}
		r.memory.Bump()
		answered := r.lists()
		time.Sleep(time.Second)
		wantNoAnswer(t, answered)
		if got := r.proofs.Load(); got != 0 {
			t.Errorf("%d more ranges are under way", got)
		}
		<-r.backend.proofs
		wantNames(t, answered)
	})
}

// TestRangeProofCounts: whatever happens to objects and to the watch, the number of
// objects is known, and a LIST is answered at once by one range, with what there is.
func TestRangeProofCounts(t *testing.T) {
	for seed := range uint64(20) {
		provable(t, Config{}, func(t *testing.T, r *rig) {
			random := rand.New(rand.NewPCG(seed, 1))
			have := map[string]bool{}
			all := []string{"a", "b", "c", "d"}
			for range 100 {
				name := all[random.IntN(len(all))]
				switch random.IntN(6) {
				case 0, 1:
					r.put(name)
					have[name] = true
				case 2:
					if have[name] {
						r.txn(memstorage.Delete("/pods/ns/" + name))
						delete(have, name)
					}
				case 3:
					r.put("a", "b")
					have["a"], have["b"] = true, true
				case 4:
					r.cached.CutAfter(random.IntN(3)) // the cache watches anew, a second later
				default:
					time.Sleep(5 * time.Second)
					r.memory.Bump()
					var want []string
					for _, n := range all {
						if have[n] {
							want = append(want, n)
						}
					}
					began := time.Now()
					wantNames(t, r.lists(), want...)
					if took := time.Since(began); took > 0 {
						t.Fatalf("a LIST took %v", took)
					}
				}
			}
			if got := r.breaches(); got != 0 {
				t.Errorf("%v breaches", got)
			}
		})
	}
}

// TestRangeProofNeedsTheCount: of a cache that was filled by who knows what it is not known
// how many objects it has, so that a range with none proves nothing.
func TestRangeProofNeedsTheCount(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		filled := r.put("a")
		other, err := r.backend.Feed(r.cached, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList, Prove: r.prove})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		w, err := other.Watch(t.Context(), "/pods/", cacheOptions(formatRevision(filled), nil))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		want(t, w, "BOOKMARK @"+formatRevision(filled))
		settled()
		r.cached.Hold()
		r.txn(memstorage.Delete("/pods/ns/a"))
		if got, err := other.proof.prove(t.Context()); got != 0 || err != nil {
			t.Errorf("proven at %d, %v", got, err)
		}
		r.cached.Release()
	})
}

// TestRangeProofIsOfWhatTheCacheHas: an event that comes while a range is made leaves it
// without a meaning, although the number of objects is right.
func TestRangeProofIsOfWhatTheCacheHas(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.memory.Bump()
		r.proving = func(_ context.Context, p Proof) (Proof, error) {
			r.txn(memstorage.Put("/pods/ns/a", marked("a")))
			settled()
			return p, nil
		}
		if got, err := r.feed.proof.prove(t.Context()); got != 0 || err != nil {
			t.Errorf("proven at %d, %v", got, err)
		}
		settled()
		if got := r.applied(); got != r.memory.Revision() {
			t.Errorf("the cache is at %d, want %d", got, r.memory.Revision())
		}
	})
}

// TestObjectsOfPages: a list in pages is known with its last, and the next begins anew.
func TestObjectsOfPages(t *testing.T) {
	var o objects
	for _, page := range []struct {
		first, last bool
		n           int
		want        objects
	}{
		{true, false, 2, objects{2, false}}, {false, false, 2, objects{4, false}}, {false, true, 1, objects{5, true}},
		{true, false, 2, objects{2, false}}, {true, true, 3, objects{3, true}},
	} {
		if o.page(page.first, page.last, page.n); o != page.want {
			t.Errorf("%+v: got %+v", page, o)
		}
	}
}

// TestRangeProofEndsWithItsBackend: a range that Close cuts off is no failure of ranges.
func TestRangeProofEndsWithItsBackend(t *testing.T) {
	only := sane
	only.ProgressAnswered = VerdictNo
	provable(t, Config{Strategy: StrategyAuto}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(only)
		r.proving = func(ctx context.Context, _ Proof) (Proof, error) {
			<-ctx.Done()
			return Proof{}, context.Cause(ctx)
		}
		r.memory.Bump()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
		settled()
		if err := r.backend.Close(); err != nil {
			t.Error(err)
		}
		waiting.Wait()
		if failures := r.backend.Status().Strategy.Failures; len(failures) != 0 {
			t.Errorf("failures are %+v", failures)
		}
	})
}

// marked is a pod that differs from those of put.
func marked(name string) *example.Pod {
	p := pod("ns", name)
	p.Labels = map[string]string{"marked": "yes"}
	return p
}
