package decorator

import (
	"context"
	"errors"
	"github.com/rvfloor/rvfloor/freshness"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrialsOneAtATime: a trial that runs is the only one, whatever fails meanwhile.
func TestTrialsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trials := newTrials()
		begun, proceed := 0, make(chan bool)
		trial := func(context.Context) lesson {
			begun++
			if <-proceed {
				return doesWork
			}
			return doesNotWork
		}
		wantBegun := func(want int) {
			t.Helper()
			trials.begin(trial)
			settled()
			if begun != want {
				t.Fatalf("%d trials have begun, want %d", begun, want)
			}
		}
		trials.failed()
		wantBegun(0)
		time.Sleep(trialEach)
		wantBegun(1)
		trials.failed()
		time.Sleep(maxTrialEach)
		wantBegun(1)
		proceed <- false
		settled()
		time.Sleep(2*trialEach - time.Nanosecond)
		wantBegun(1) // each wait is twice the one before
		time.Sleep(time.Nanosecond)
		wantBegun(2)

		// What failed within calmAfter of a trial that fared well is tried as late as if
		// that had failed; what fails later, soon.
		proceed <- true
		settled()
		trials.failed()
		time.Sleep(4*trialEach - time.Nanosecond)
		wantBegun(2)
		time.Sleep(time.Nanosecond)
		wantBegun(3)
		proceed <- true
		settled()
		time.Sleep(calmAfter + time.Nanosecond)
		trials.failed()
		time.Sleep(trialEach)
		wantBegun(4)
		proceed <- true

		time.Sleep(time.Hour)
		trials.close()
		wantBegun(4)
	})
}

// TestFailuresAreTriedLater: who comes right after a failure is served, and tries nothing.
func TestFailuresAreTriedLater(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.DropProgress(true)
		r.wantFresh(2500 * time.Millisecond)
		before := r.cached.Calls().Kicks
		r.wantFresh(0)
		time.Sleep(trialEach - time.Millisecond)
		r.wantFresh(0)
		settled()
		if got := r.cached.Calls().Kicks - before; got != 0 {
			t.Errorf("%d requests within a second of the failure", got)
		}
		// What was found is forgotten with new properties.
		r.cached.DropProgress(false)
		r.backend.SetProperties(sane)
		r.wantStrategy(StrategyRequest)
		if failures := r.backend.Status().Strategy.Failures; len(failures) != 0 {
			t.Errorf("failures are %+v", failures)
		}
		r.wantFresh(10 * time.Millisecond)
	})
}

// TestNudgesAreTriedWithAWrite: where nothing but a write moves progress, a trial of nudges
// makes one.
func TestNudgesAreTriedWithAWrite(t *testing.T) {
	s, nudges := standing(Config{})
	bubble(t, s, func(t *testing.T, r *rig) {
		moves := nudges.onSend
		nudges.onSend = func() error { return errors.New("read only") }
		stands := sane
		stands.ProgressReaches = VerdictNo
		r.backend.SetProperties(stands)
		r.cached.FreezeProgress(true)
		r.wantFresh(2500 * time.Millisecond)
		r.wantStrategy(StrategyDirect)
		nudges.onSend = moves
		time.Sleep(maxTrialEach)
		r.memory.Bump()
		r.wantFresh(0)
		settled()
		r.wantStrategy(StrategyNudge)
		r.wantFresh(20 * time.Millisecond)
	})
}

// TestTrialsNeedTheFloor: answers that stay below it are no sign that requests work.
func TestTrialsNeedTheFloor(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.FreezeProgress(true)
		r.wantFresh(time.Second)
		r.wantStrategy(StrategyDirect)
		time.Sleep(maxTrialEach)
		r.memory.Bump()
		r.wantFresh(0)
		time.Sleep(2 * trialTime)
		r.wantStrategy(StrategyDirect)
	})
}

// TestProofsAreTriedBesideWriters: on a resource that is written all the time no range
// proves anything; that they are answered is enough.
func TestProofsAreTriedBesideWriters(t *testing.T) {
	only := sane
	only.ProgressAnswered = VerdictNo
	provable(t, Config{Strategy: StrategyAuto}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(only)
		r.proving = func(context.Context, Proof) (Proof, error) { return Proof{}, errors.New("Unimplemented") }
		r.memory.Bump()
		r.wantFresh(0)
		r.wantStrategy(StrategyDirect)
		r.proving = func(_ context.Context, p Proof) (Proof, error) {
			p.Newer = true
			return p, nil
		}
		time.Sleep(maxTrialEach)
		r.memory.Bump()
		r.wantFresh(0)
		settled()
		r.wantStrategy(StrategyDirect)
		r.put("written")
		time.Sleep(trialAsks)
		settled()
		r.wantStrategy(StrategyRangeProof)
	})
}

// TestRequestIsTriedWhenCalm: requests alone are not tried while nudges are in use.
func TestRequestIsTriedWhenCalm(t *testing.T) {
	s, _ := standing(Config{})
	bubble(t, s, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.FreezeProgress(true)
		r.wantFresh(time.Second)
		r.wantStrategy(StrategyNudge)
		r.cached.FreezeProgress(false)
		time.Sleep(calmAfter / 2)
		r.wantFresh(20 * time.Millisecond)
		settled()
		r.wantStrategy(StrategyNudge)
		time.Sleep(calmAfter)
		r.wantFresh(20 * time.Millisecond)
		settled()
		r.wantStrategy(StrategyRequest)
	})
}

// TestCachesDiffer: a strategy is of a cache that has what it takes, and of no other.
func TestCachesDiffer(t *testing.T) {
	feed := &Feed{}
	proves := &Feed{resource: Resource{Prove: func(context.Context, uint64) (Proof, error) { return Proof{}, nil }}}
	c := &choice{strategies: []Strategy{StrategyRangeProof, StrategyNudge}}
	w := &choice{strategies: []Strategy{StrategyWrite, StrategyDirect}}
	for name, got := range map[string][2]Strategy{
		"no Feed":          {c.first(nil), StrategyNudge},
		"no Prover":        {c.first(feed), StrategyNudge},
		"a Prover":         {c.first(proves), StrategyRangeProof},
		"no Feed to write": {w.first(nil), StrategyDirect},
		"a Feed to write":  {w.first(feed), StrategyWrite},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: got %s, want %s", name, got[0], got[1])
		}
	}
}

// stuckSoon is long enough for requests to be as rare as they get, and not for what stands
// still to be found out.
const stuckSoon = 400 * time.Millisecond

// TestMovingAsksAtOnce: who waits when another strategy is taken is served by that without
// a backoff's delay.
func TestMovingAsksAtOnce(t *testing.T) {
	s, nudges := standing(Config{})
	bubble(t, s, func(t *testing.T, r *rig) {
		r.backend.SetProperties(sane)
		r.cached.FreezeProgress(true)
		r.memory.Bump()
		answered := r.lists()
		time.Sleep(stuckSoon)
		wantNoAnswer(t, answered)
		stands := sane
		stands.ProgressReaches = VerdictNo
		r.backend.SetProperties(stands)
		time.Sleep(5 * time.Millisecond) // a reply that is too low, and a write
		wantNames(t, answered)
		if got := nudges.writes.Load(); got != 1 {
			t.Errorf("%d nudges", got)
		}
	})
}

// TestOneStrategyIsNotLeft: where there is no other, nothing is noted as failed, and the
// backend is looked at no more than before.
func TestOneStrategyIsNotLeft(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyRequest}}, func(t *testing.T, r *rig) {
		r.cached.DropProgress(true)
		r.memory.Bump()
		if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrNotFresh) {
			t.Errorf("got %v", err)
		}
		if failures := r.backend.Status().Strategy.Failures; len(failures) != 0 {
			t.Errorf("failures are %+v", failures)
		}
	})
}

// TestFailuresAreProbed: a strategy that fails is a reason to look again.
func TestFailuresAreProbed(t *testing.T) {
	var probes atomic.Int64
	probe := func(context.Context) (Properties, error) {
		probes.Add(1)
		return sane, nil
	}
	bubble(t, setup{cfg: Config{Probe: probe}}, func(t *testing.T, r *rig) {
		settled()
		r.cached.DropProgress(true)
		r.wantFresh(2500 * time.Millisecond)
		r.wantStrategy(StrategyDirect)
		time.Sleep(doubtProbe)
		settled()
		if got := probes.Load(); got != 2 {
			t.Errorf("%d probes, want the first and one for the failure", got)
		}
		r.cached.DropProgress(false)
	})
}

// TestTrialsOfNothing: where there is no floor, or no cache to bring to it, a trial teaches
// nothing, and the next does not wait for longer.
func TestTrialsOfNothing(t *testing.T) {
	down := false
	outage := func(r *rig) freshness.Source {
		return freshness.SourceFunc(func(ctx context.Context) (uint64, error) {
			if down {
				return 0, errors.New("down")
			}
			return r.writer.GetCurrentResourceVersion(ctx)
		})
	}
	for name, row := range map[string]struct {
		setup setup
		then  func(*rig)
	}{
		"outage":             {setup{source: outage}, func(*rig) { down = true }},
		"not filled":         {setup{filling: true}, func(*rig) {}},
		"not filled nor fed": {setup{filling: true, feedless: true}, func(*rig) {}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, row.setup, func(t *testing.T, r *rig) {
				row.then(r)
				if got := r.backend.chooser.try(t.Context(), StrategyRequest); got != nothingTried {
					t.Errorf("it taught %d", got)
				}
			})
		})
	}
}

// TestTheLastWordStands: what a probe finds that was under way does not undo what was told.
func TestTheLastWordStands(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.backend.chooser.told(sane, true)
		other := sane
		other.ProgressAnswered = VerdictNo
		r.backend.chooser.told(other, false)
		r.wantStrategy(StrategyRequest)
	})
}

// TestRewoundIsNotTried: a cache of a history that is over says nothing of a strategy.
func TestRewoundIsNotTried(t *testing.T) {
	rewind(t, Config{}, func(t *testing.T, r *rig) {
		if open := len(r.backend.chooser.open(StrategyRequest)); open != 1 {
			t.Fatalf("%d caches can be tried", open)
		}
		_, err := list(t.Context(), r.store, everything(""))
		if _, rewound := errors.AsType[*RewoundError](err); !rewound {
			t.Fatal(err)
		}
		if open := len(r.backend.chooser.open(StrategyRequest)); open != 0 {
			t.Errorf("%d caches are tried", open)
		}
	})
}
