package decorator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// nudgeable is a Source of a backend in memory that can be nudged.
type nudgeable struct {
	freshness.Source
	writes atomic.Int64
	onSend func() error // what a write does; nil: nothing
}

func (n *nudgeable) Nudge(context.Context) error {
	n.writes.Add(1)
	if n.onSend == nil {
		return nil
	}
	return n.onSend()
}

// standing is a setup whose progress moves with nudges alone, and what counts them.
func standing(cfg Config) (setup, *nudgeable) {
	n := &nudgeable{}
	return setup{cfg: cfg, source: func(r *rig) freshness.Source {
		n.Source = freshness.SourceFunc(r.writer.GetCurrentResourceVersion)
		n.onSend = func() error {
			r.memory.Bump()
			r.cached.FreezeProgress(true)
			return nil
		}
		return n
	}}, n
}

// strategy is the present one of the backend.
func (r *rig) strategy() Strategy { return r.backend.Status().Strategy.Name }

func (r *rig) wantStrategy(want Strategy) {
	r.t.Helper()
	if got := r.backend.Status().Strategy; got.Name != want {
		r.t.Fatalf("the strategy is %s (%s), want %s", got.Name, got.Reason, want)
	}
}

// wantFresh demands a LIST, at most so long after its call, that has what was written.
func (r *rig) wantFresh(within time.Duration) {
	r.t.Helper()
	r.put("fresh")
	newest := r.memory.Bump()
	began := time.Now()
	pods, err := list(r.t.Context(), r.store, everything(""))
	if err != nil {
		r.t.Fatal(err)
	}
	if version, _ := r.store.Versioner().ParseResourceVersion(pods.ResourceVersion); version < newest || len(pods.Items) == 0 {
		r.t.Errorf("answered at %d with %v, want %d and the pod", version, names(pods), newest)
	}
	if took := time.Since(began); took > within {
		r.t.Errorf("it took %v, want at most %v", took, within)
	}
}

// TestSilenceMoves: where nothing answers any more, who waits is served directly after
// SilentTime, and who comes later at once; and from the cache again when something does.
func TestSilenceMoves(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.wantFresh(10 * time.Millisecond)
		r.wantStrategy(StrategyRequest)
		r.cached.DropProgress(true)
		r.wantFresh(2500 * time.Millisecond)
		r.wantStrategy(StrategyDirect)
		r.wantFresh(0)
		if failures := r.backend.Status().Strategy.Failures; len(failures) != 1 || failures[0].Strategy != StrategyRequest {
			t.Errorf("failures are %+v", failures)
		}

		r.cached.DropProgress(false)
		time.Sleep(maxTrialEach)
		r.wantFresh(0) // and tries
		settled()
		r.wantStrategy(StrategyRequest)
		before := r.cached.Calls().List
		r.wantFresh(10 * time.Millisecond)
		if r.cached.Calls().List != before {
			t.Error("the cache does not answer again")
		}
	})
}

// TestTrialsAreFew: a strategy that goes on to fail is tried less and less often.
func TestTrialsAreFew(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.DropProgress(true)
		r.wantFresh(2500 * time.Millisecond)
		before := r.cached.Calls().Kicks
		for range 600 {
			r.wantFresh(0)
			time.Sleep(time.Second)
		}
		r.wantStrategy(StrategyDirect)
		// 1, 2, 4, 8, 16 and then each 30 s: 25 trials that ask ten times each, two of them beside.
		if kicks := r.cached.Calls().Kicks - before; kicks < 200 || kicks > 300 {
			t.Errorf("%d requests in ten minutes", kicks)
		}
	})
}

// TestStandingMoves: where replies stand still the backend is nudged, after the first time
// at once, and not any more when that has not been needed for a minute.
func TestStandingMoves(t *testing.T) {
	s, nudges := standing(Config{})
	bubble(t, s, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.FreezeProgress(true)
		r.wantFresh(time.Second)
		r.wantStrategy(StrategyNudge)
		for range 10 {
			before := nudges.writes.Load()
			r.wantFresh(20 * time.Millisecond)
			if got := nudges.writes.Load() - before; got != 1 {
				t.Errorf("%d nudges for one LIST", got)
			}
		}

		r.cached.FreezeProgress(false)
		before := nudges.writes.Load()
		for range 5 {
			time.Sleep(maxTrialEach)
			r.wantFresh(20 * time.Millisecond)
		}
		settled()
		r.wantStrategy(StrategyRequest)
		if nudges.writes.Load() != before {
			t.Error("nudged without need")
		}
	})
}

// TestUselessNudgesMove: where nudges do not help, or cannot be had, the next strategy is
// taken in time for who waits. Until they help they are few.
func TestUselessNudgesMove(t *testing.T) {
	for name, answer := range map[string]error{"useless": nil, "refused": errors.New("read only")} {
		t.Run(name, func(t *testing.T) {
			s, nudges := standing(Config{})
			bubble(t, s, func(t *testing.T, r *rig) {
				nudges.onSend = func() error { return answer }
				r.backend.SetProperties(sane)
				r.cached.FreezeProgress(true)
				r.wantFresh(2500 * time.Millisecond)
				r.wantStrategy(StrategyDirect)
				if got := nudges.writes.Load(); answer == nil && (got < 1 || got > 3) {
					t.Errorf("%d nudges in vain", got)
				}
				r.cached.FreezeProgress(false)
				time.Sleep(maxTrialEach)
				r.wantFresh(0)
				settled()
				if r.strategy() == StrategyDirect {
					t.Error("it did not come back")
				}
			})
		})
	}
}

// TestUnprobedStays: a backend that nobody has looked at is asked for progress whatever
// comes of it; and so is one whose operator says so.
func TestUnprobedStays(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    Config
		probed bool
	}{"unprobed": {}, "explicit": {Config{Strategy: StrategyRequest}, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: test.cfg}, func(t *testing.T, r *rig) {
				if test.probed {
					r.backend.SetProperties(Properties{LinearizableFloor: VerdictYes})
				}
				r.cached.DropProgress(true)
				r.memory.Bump()
				if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrNotFresh) {
					t.Errorf("got %v, want %v", err, ErrNotFresh)
				}
				r.wantStrategy(StrategyRequest)
			})
		})
	}
}

// TestOvertakenMoves: progress that came before the events below it is never asked for
// again, until somebody looks anew.
func TestOvertakenMoves(t *testing.T) {
	for name, probed := range map[string]bool{"probed": true, "unprobed": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{untapped: true}, func(t *testing.T, r *rig) {
				if probed {
					r.backend.SetProperties(sane)
				}
				r.cached.Hold()
				r.put("a")
				settled() // it is on its way
				r.put("b")
				r.cached.OvertakeProgress(true)
				r.feed.stream.Hint()
				settled()
				r.cached.Release()
				settled()
				r.wantStrategy(StrategyDirect)
				r.cached.OvertakeProgress(false)
				time.Sleep(time.Minute)
				r.wantFresh(0)
				time.Sleep(time.Minute)
				r.wantFresh(0)
				r.wantStrategy(StrategyDirect)
				if got := r.backend.Status().Strategy.Properties.ProgressOrdered; got != VerdictNo {
					t.Errorf("progress_ordered is %v", got)
				}
				r.backend.SetProperties(sane)
				r.wantStrategy(StrategyRequest)
				r.wantFresh(200 * time.Millisecond)
			})
		})
	}
}

// TestOneCacheIsNotTheBackend: where another cache had an answer, a cache that has none
// does not move all.
func TestOneCacheIsNotTheBackend(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.DropProgress(true)
		target := r.memory.Bump()
		other, err := r.backend.Feed(r.writer, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		other.replied(target)
		if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrNotFresh) {
			t.Errorf("got %v, want %v", err, ErrNotFresh)
		}
		r.wantStrategy(StrategyRequest)
	})
}

// TestRefused: of a backend that is unfit no read is verified, whatever the policy says,
// and all else goes on.
func TestRefused(t *testing.T) {
	for _, policy := range []OnUnverified{UnverifiedFail, UnverifiedDirect, UnverifiedStale} {
		for _, strategy := range []Strategy{StrategyAuto, StrategyRequest, StrategyDirect} {
			t.Run(string(policy)+" "+string(strategy), func(t *testing.T) {
				bubble(t, setup{cfg: Config{OnUnverified: policy, Strategy: strategy}}, func(t *testing.T, r *rig) {
					unfit := sane
					unfit.LinearizableFloor = VerdictNo
					r.backend.SetProperties(unfit)
					for verb, read := range reads("0") {
						err := read(t.Context(), r.store)
						status, _ := errors.AsType[*apierrors.StatusError](err)
						code := int32(503)
						if verb == "watch" {
							code = 429
						}
						if !errors.Is(err, ErrRefused) || status == nil || status.Status().Code != code || status.Status().Details.RetryAfterSeconds != 1 {
							t.Errorf("%s: got %v", verb, err)
						}
					}
					if got := r.reads(verbList, routeFloor, outcomeRefused); got != 1 {
						t.Errorf("%v reads were counted as refused", got)
					}
					if r.backend.Status().Strategy.Refused == "" {
						t.Error("the status does not say so")
					}
					if err := r.backend.Check(t.Context()); !errors.Is(err, ErrRefused) {
						t.Errorf("it is taken for ready: %v", err)
					}
					p := pod("ns", "a")
					if err := r.store.Create(t.Context(), podKey(p), p, &example.Pod{}, 0); err != nil {
						t.Error(err)
					}
					if err := r.store.Get(t.Context(), podKey(p), storage.GetOptions{}, &example.Pod{}); err != nil {
						t.Error(err)
					}
					r.backend.SetProperties(sane)
					r.wantFresh(200 * time.Millisecond)
					if err := r.backend.Check(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestShownProperties: metrics have one verdict of each property, and the strategy.
func TestShownProperties(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		shown := func(property, verdict string) bool {
			return r.backend.metrics.BackendProperty.DeleteLabelValues("default", property, verdict)
		}
		if !shown("progress_answered", "unsure") || !shown("strategy", "request") {
			t.Error("what nobody has looked at is not told as such")
		}
		r.backend.SetProperties(sane)
		unfit := sane
		unfit.OneRevisionSpace = VerdictNo
		r.backend.SetProperties(unfit)
		for _, p := range unfit.All() {
			for _, verdict := range verdicts {
				if got, want := shown(p.Name, verdict.String()), verdict == p.Verdict; got != want {
					t.Errorf("%s=%s: shown %t", p.Name, verdict, got)
				}
			}
		}
		if shown("strategy", "request") || !shown("strategy", "refused") {
			t.Error("the strategy is told wrong")
		}
	})
}
