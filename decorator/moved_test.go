package decorator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/progress"
)

// TestMovedMeanwhile: a read that was on its way when the strategy changed, be it that it
// read its floor or waited for the cache, is served by the new one at once.
func TestMovedMeanwhile(t *testing.T) {
	lossy, unfit := sane, sane
	lossy.EveryEventDelivered, unfit.LinearizableFloor = VerdictNo, VerdictNo
	for name, test := range map[string]struct {
		strategy Strategy
		seen     Properties
		policy   OnUnverified
		reading  bool // its floor
	}{
		"to direct, reading the floor": {"", lossy, UnverifiedFail, true},
		"to direct, waiting":           {"", lossy, UnverifiedFail, false},
		"refused, reading the floor":   {"", unfit, UnverifiedDirect, true},
		"refused, waiting":             {"", unfit, UnverifiedDirect, false},
		"refused, by a named strategy": {StrategyRequest, unfit, UnverifiedDirect, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: Config{Strategy: test.strategy, OnUnverified: test.policy}}, func(t *testing.T, r *rig) {
				r.backend.SetProperties(sane)
				r.cached.Hold()
				r.put("a")
				floor := make(chan struct{})
				if test.reading {
					r.writer.OnRevision(func(ctx context.Context, revision uint64) (uint64, error) {
						<-floor
						return revision, nil
					})
				}
				listed, watched := make(chan error, 1), make(chan error, 1)
				go func() {
					pods, err := list(t.Context(), r.store, everything(""))
					if err == nil && !slices.Equal(names(pods), []string{"a"}) {
						t.Errorf("got %v", names(pods))
					}
					listed <- err
				}()
				go func() {
					_, err := r.store.Watch(t.Context(), "/pods/", everything(""))
					watched <- err
				}()
				settled()
				began := time.Now()
				r.backend.SetProperties(test.seen)
				close(floor)
				list, watch := <-listed, <-watched
				if refused := test.seen == unfit; errors.Is(list, ErrRefused) != refused || errors.Is(watch, ErrRefused) != refused || !refused && list != nil {
					t.Errorf("list: %v, watch: %v", list, watch)
				}
				if !apierrors.IsTooManyRequests(watch) || time.Since(began) > 0 {
					t.Errorf("after %v watch: %v", time.Since(began), watch)
				}
			})
		})
	}
}

// becoming is a cache that says so many times that it is not ready, and takes so long to
// answer a LIST.
type becoming struct {
	storage.Interface
	unready *atomic.Int32
	takes   time.Duration
}

func (b becoming) ReadinessCheck() error {
	if b.unready.Add(-1) >= 0 {
		return errors.New("not yet")
	}
	return b.Interface.ReadinessCheck()
}

func (b becoming) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	time.Sleep(b.takes)
	return b.Interface.GetList(ctx, key, opts, list)
}

// TestReadyMeanwhile: a LIST that need not wait for a cache that is filled waits for one
// that has become ready just then, as it may be below the floor.
func TestReadyMeanwhile(t *testing.T) {
	for name, looks := range map[string]int32{"at the floor": 1, "at the answer": 2} {
		t.Run(name, func(t *testing.T) {
			unready := &atomic.Int32{}
			bubble(t, setup{inner: func(s storage.Interface) storage.Interface { return becoming{s, unready, 0} }}, func(t *testing.T, r *rig) {
				r.store.resource.Raw = nil // else that is asked
				settled()
				r.cached.Hold()
				newest := r.put("a")
				unready.Store(looks)
				answered := make(chan error, 1)
				opts := everything("0")
				opts.Predicate.Limit = 1
				pods := &example.PodList{}
				go func() { answered <- r.store.GetList(t.Context(), "/pods/", opts, pods) }()
				settled()
				r.cached.Release()
				if err := <-answered; err != nil || pods.ResourceVersion != formatRevision(newest) || len(pods.Items) != 1 {
					t.Errorf("got %v at %s, %v", names(pods), pods.ResourceVersion, err)
				}
				if r.breaches() != 0 {
					t.Error("it was counted as a breach")
				}
			})
		})
	}
}

// TestReadyMeanwhileInTime: such a LIST keeps the caller's deadline, which the Cacher's own
// wait does not look at.
func TestReadyMeanwhileInTime(t *testing.T) {
	unready := &atomic.Int32{}
	bubble(t, setup{inner: func(s storage.Interface) storage.Interface { return becoming{s, unready, 0} }}, func(t *testing.T, r *rig) {
		settled()
		r.cached.Hold()
		r.put("a")
		unready.Store(1)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		opts := everything("")
		opts.Predicate.Limit = 1
		began := time.Now()
		if _, err := list(ctx, r.store, opts); !errors.Is(err, ErrNotFresh) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestReadyAtTheAnswer: what goes to the storage as the cache is being filled does so also
// where that has become ready just then: it would wait for the floor without a deadline.
func TestReadyAtTheAnswer(t *testing.T) {
	unready := &atomic.Int32{}
	s := setup{cfg: Config{CachedGets: true}, inner: func(s storage.Interface) storage.Interface { return becoming{s, unready, 0} }}
	bubble(t, s, func(t *testing.T, r *rig) {
		settled()
		r.cached.Hold()
		r.put("a")
		opts := everything("")
		opts.Predicate.Limit = 1
		for name, read := range map[string]func() (string, error){
			"list": func() (string, error) {
				pods, err := list(t.Context(), r.store, opts)
				return strings.Join(names(pods), ","), err
			},
			"get": func() (string, error) {
				pod := &example.Pod{}
				err := r.store.Get(t.Context(), "/pods/ns/a", storage.GetOptions{}, pod)
				return pod.Name, err
			},
		} {
			unready.Store(2)
			began := time.Now()
			if got, err := read(); err != nil || got != "a" || time.Since(began) > 0 {
				t.Errorf("%s: after %v: %q, %v", name, time.Since(began), got, err)
			}
			if n := unready.Load(); n != 0 {
				t.Fatalf("%s: it was looked at %d times less", name, n)
			}
		}
	})
}

// TestStorageIsWhole: of an answer of the storage nothing is missing, whatever the cache has
// of its revision.
func TestStorageIsWhole(t *testing.T) {
	unready := &atomic.Int32{}
	bubble(t, setup{inner: func(s storage.Interface) storage.Interface { return becoming{s, unready, 0} }}, func(t *testing.T, r *rig) {
		r.tornHerd()
		unready.Store(2)
		opts := everything("")
		opts.Predicate.Limit = 100
		began := time.Now()
		if _, err := list(t.Context(), r.store, opts); err != nil || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestLossyCacheIsNotAsked: where events get lost a cache that has reached a revision may
// lack what was before it.
func TestLossyCacheIsNotAsked(t *testing.T) {
	for _, strategy := range []Strategy{StrategyAuto, StrategyDirect} {
		bubble(t, setup{cfg: Config{Strategy: strategy}}, testLossy)
	}
}

func testLossy(t *testing.T, r *rig) {
	lossy := sane
	lossy.EveryEventDelivered = VerdictNo
	r.backend.SetProperties(lossy)
	revision := formatRevision(r.put("a"))
	settled()
	before := r.cached.Calls()
	if pods, err := list(t.Context(), r.store, everything(revision)); err != nil || len(pods.Items) != 1 {
		t.Errorf("got %v, %v", names(pods), err)
	}
	if err := r.store.Get(t.Context(), "/pods/ns/a", storage.GetOptions{ResourceVersion: revision}, &example.Pod{}); err != nil {
		t.Error(err)
	}
	if after := r.cached.Calls(); after.List != before.List+1 || after.Get != before.Get+1 {
		t.Errorf("calls of the storage were %+v and are %+v", before, after)
	}
	_, err := list(t.Context(), r.store, everything(formatRevision(r.memory.Bump()+1)))
	if seconds, _ := apierrors.SuggestsClientDelay(err); !storage.IsTooLargeResourceVersion(err) || seconds != 1 {
		t.Errorf("a list at what does not exist: %v", err)
	}
}

// TestReadyAndNotAgain: a LIST that has to wait for a cache that is filled does not go to the
// storage with all the others where that is filled once more.
func TestReadyAndNotAgain(t *testing.T) {
	looks := &atomic.Int32{}
	bubble(t, setup{inner: func(s storage.Interface) storage.Interface { return flapping{s, looks} }}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		before := r.cached.Calls().List
		looks.Store(1)
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Error(err)
		}
		if n := looks.Load(); n != 4 {
			t.Fatalf("it was looked at %d times", n-1)
		}
		if after := r.cached.Calls().List; after != before {
			t.Errorf("the storage was listed %d times", after-before)
		}
	})
}

// flapping is a cache that is not ready at each second look, from the first on that is
// counted.
type flapping struct {
	storage.Interface
	looks *atomic.Int32 // 0: none is
}

func (f flapping) ReadinessCheck() error {
	if f.looks.Load() > 0 && f.looks.Add(1)%2 == 0 {
		return errors.New("it is being filled")
	}
	return f.Interface.ReadinessCheck()
}

// TestUnsoundIsNotTriedAgain: what has failed, and has then been found to be unsound, has
// no trials: one would ask for progress that overtakes events.
func TestUnsoundIsNotTriedAgain(t *testing.T) {
	s, _ := standing(Config{})
	s.proves = true
	bubble(t, s, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.backend.chooser.failed(1000, "it is silent", StrategyRequest, StrategyNudge)
		settled()
		r.wantStrategy(StrategyRangeProof)
		r.backend.chooser.found(func(p *Properties) { p.ProgressOrdered = VerdictNo })
		r.wantStrategy(StrategyRangeProof)
		settled()
		before := r.cached.Calls().Kicks
		for range 10 {
			time.Sleep(maxTrialEach)
			r.put("a")
			if _, err := list(t.Context(), r.store, everything("")); err != nil {
				t.Fatal(err)
			}
		}
		settled()
		if after := r.cached.Calls().Kicks; after != before || r.backend.chooser.present().failing {
			t.Errorf("progress was asked for %d times", after-before)
		}
	})
}

// TestTornRevisionTimesOutOnce: what a read has waited before counts.
func TestTornRevisionTimesOutOnce(t *testing.T) {
	const takes = 2 * time.Second
	bubble(t, setup{inner: func(s storage.Interface) storage.Interface { return becoming{s, &atomic.Int32{}, takes} }}, func(t *testing.T, r *rig) {
		h := r.tornHerd()
		start := time.Now()
		_, err := list(t.Context(), r.store, everything(formatRevision(h.before)))
		checkChain(t, err, ErrNotFresh, errMaxWait)
		if waited := time.Since(start); waited != defaultMaxWait {
			t.Errorf("waited %v, want %v", waited, defaultMaxWait)
		}
	})
}

// TestCachesOwnProgress: where the strategy asks for no progress the cache's own request
// reaches the storage, unless verified answers rest on a cache that it may run ahead of.
func TestCachesOwnProgress(t *testing.T) {
	ordered, unordered := sane, sane
	ordered.EveryEventDelivered, unordered.ProgressOrdered = VerdictNo, VerdictNo
	for name, test := range map[string]struct {
		strategy Strategy
		mode     Mode
		seen     *Properties
		want     bool
	}{
		"direct":                         {StrategyDirect, ModeVerify, nil, true},
		"direct by what was seen":        {StrategyAuto, ModeVerify, &ordered, true},
		"range-proof":                    {StrategyRangeProof, ModeVerify, nil, false},
		"progress overtakes":             {StrategyAuto, ModeVerify, &unordered, false},
		"progress overtakes, off":        {StrategyAuto, ModeOff, &unordered, true},
		"range-proof, shadow":            {StrategyRangeProof, ModeShadow, nil, true},
		"range-proof, off":               {StrategyRangeProof, ModeOff, nil, true},
		"request: a hint, and no waiter": {StrategyRequest, ModeVerify, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: Config{Strategy: test.strategy}, proves: true}, func(t *testing.T, r *rig) {
				if test.seen != nil {
					r.backend.SetProperties(*test.seen)
				}
				if err := r.backend.SetMode(test.mode); err != nil {
					t.Fatal(err)
				}
				before := r.cached.Calls()
				if err := r.feed.RequestWatchProgress(t.Context()); err != nil {
					t.Error(err)
				}
				settled()
				if after := r.cached.Calls(); (after.Kicks > before.Kicks) != test.want {
					t.Errorf("calls were %+v and are %+v", before, after)
				}
			})
		})
	}
}

// TestSwitchedOffDirect: a LIST past a strategy that asks for no progress takes what
// upstream's takes, a tick of 100 ms, and not its 3 s.
func TestSwitchedOffDirect(t *testing.T) {
	for _, strategy := range []Strategy{StrategyDirect, StrategyRangeProof} {
		bubble(t, setup{cfg: Config{Strategy: strategy}, proves: true}, func(t *testing.T, r *rig) {
			if err := r.backend.SetMode(ModeOff); err != nil {
				t.Fatal(err)
			}
			r.memory.Bump()
			before, began := r.cached.Calls().List, time.Now()
			if _, err := list(t.Context(), r.store, everything("")); err != nil || time.Since(began) > 200*time.Millisecond || r.cached.Calls().List != before {
				t.Errorf("%s: after %v and %d lists of the storage: %v", strategy, time.Since(began), r.cached.Calls().List-before, err)
			}
		})
	}
}

// TestDirectStrategyUntapped: where nobody tells the end of a revision a watch that goes on
// from the newest is served all the same.
func TestDirectStrategyUntapped(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyDirect}, untapped: true}, func(t *testing.T, r *rig) {
		for _, name := range []string{"a", "b"} {
			revision := r.put(name)
			settled()
			began := time.Now()
			w, err := r.store.Watch(t.Context(), "/pods/", everything(formatRevision(revision)))
			if err != nil || time.Since(began) > time.Second {
				t.Fatalf("after %v: %v", time.Since(began), err)
			}
			w.Stop()
		}
	})
}

// TestPagesOfTheNewestWaitHere: the Cacher waits for no revision that a page's floor was
// not waited for already: it heeds no deadline.
func TestPagesOfTheNewestWaitHere(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyRangeProof}, proves: true}, func(t *testing.T, r *rig) {
		// Each revision that is read is one that the cache does not have.
		r.writer.OnRevision(func(context.Context, uint64) (uint64, error) { return r.memory.Bump(), nil })
		opts := everything("")
		opts.Predicate.Continue, opts.Predicate.Limit = tokenNewest, 1
		began := time.Now()
		if _, err := list(t.Context(), r.store, opts); err != nil || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestAnotherHistory: what is known of writes and answers of a history that has ended holds
// for no other.
func TestAnotherHistory(t *testing.T) {
	s, nudges := standing(Config{})
	bubble(t, s, func(t *testing.T, r *rig) {
		stands := sane
		stands.ProgressReaches = VerdictNo
		r.backend.SetProperties(stands)
		if err := r.backend.nudges.write(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		r.feed.reply.Raise(1000)
		r.put("a")
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		r.restore()
		if _, err := r.backend.floors.Next(t.Context()); err == nil {
			t.Fatal("no rewind was found")
		}
		r.backend.chooser.failed(500, "it does not work", StrategyNudge)
		settled()
		r.wantStrategy(StrategyDirect)

		r.backend.floors.Renew(r.backend.floors.Epoch())
		before := nudges.writes.Load()
		for _, target := range []uint64{10, 10, 11} {
			if err := r.backend.nudges.write(t.Context(), target); err != nil {
				t.Fatal(err)
			}
		}
		if got := nudges.writes.Load() - before; got != 2 {
			t.Errorf("%d writes for two revisions", got)
		}
	})
}

// TestKeysOfACacheThatCannotAsk: Stats, for which API servers let the cache list its keys
// each minute, does not wait in vain for progress that is not asked for.
func TestKeysOfACacheThatCannotAsk(t *testing.T) {
	for _, strategy := range []Strategy{StrategyRequest, StrategyRangeProof, StrategyWrite, StrategyDirect} {
		s := setup{cfg: Config{Strategy: strategy}, proves: true, raw: func(raw storage.Interface) storage.Interface { return mortal{raw} }}
		bubble(t, s, func(t *testing.T, r *rig) {
			// Each revision that is read is one that the cache does not have.
			r.writer.OnRevision(func(context.Context, uint64) (uint64, error) { return r.memory.Bump(), nil })
			r.put("a")
			settled()
			began := time.Now()
			if keys, err := r.cached.Keys(t.Context()); err != nil || len(keys) != 1 || time.Since(began) > 200*time.Millisecond {
				t.Errorf("%s: %v after %v: %v", strategy, keys, time.Since(began), err)
			}
		})
	}
}

// TestKeysWhileFilling: that a cache has nothing yet is no sign of a strategy that fails.
func TestKeysWhileFilling(t *testing.T) {
	bubble(t, setup{filling: true, proves: true}, func(t *testing.T, r *rig) {
		unordered := sane
		unordered.ProgressOrdered = VerdictNo
		r.backend.SetProperties(unordered)
		r.put("a")
		if _, err := r.cached.Keys(t.Context()); !errors.Is(err, ErrNotReady) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * progress.SilentTime)
		settled()
		r.wantStrategy(StrategyRangeProof)
	})
}

// TestWorkers: none begins after close.
func TestWorkers(t *testing.T) {
	var w workers
	ran := make(chan struct{})
	if !w.begin(func() { close(ran) }) {
		t.Fatal("none can begin")
	}
	w.close()
	select {
	case <-ran:
	default:
		t.Error("close did not wait")
	}
	if w.begin(func() { t.Error("one runs") }) {
		t.Error("one has begun after close")
	}
}
