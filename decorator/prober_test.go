package decorator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadsWaitForTheFirstProbe: at most MaxWait. Where it saw nothing they go on to wait,
// and where it could not tell all a LIST is answered past the cache.
func TestReadsWaitForTheFirstProbe(t *testing.T) {
	look := sync.OnceValue(func() chan error { return make(chan error) }) // in the bubble
	probe := func(ctx context.Context) (Properties, error) {
		select {
		case err := <-look():
			if err != nil {
				return Properties{}, err
			}
			return sane, nil
		case <-ctx.Done():
			return Properties{}, context.Cause(ctx)
		}
	}
	bubble(t, setup{cfg: Config{Probe: probe, MaxWait: 3 * time.Second}}, func(t *testing.T, r *rig) {
		r.put("a")
		answered := make(chan error, 1)
		go func() {
			_, err := list(t.Context(), r.store, everything(""))
			answered <- err
		}()
		synctest.Wait()
		select {
		case err := <-answered:
			t.Errorf("it was not known how, and it was answered: %v", err)
		default:
		}
		began := time.Now()
		if err := <-answered; err != nil || time.Since(began) != lookTime {
			t.Errorf("got %v after %v, want a quorum list after %v", err, time.Since(began), lookTime)
		}
		look() <- fmt.Errorf("probe: %w", ErrUnreachable)
		synctest.Wait()
		r.wantStrategy(StrategyRequest)
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Error(err)
		}
		began = time.Now()
		_, err := r.store.Watch(t.Context(), "/pods/", everything(""))
		if !errors.Is(err, errLooking) || !errors.Is(err, ErrNotFresh) || time.Since(began) != 3*time.Second {
			t.Errorf("got %v after %v, want %v after MaxWait", err, time.Since(began), errLooking)
		}
		look() <- errors.New("half of it")
		synctest.Wait()
		r.wantStrategy(StrategyDirect)
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Error(err)
		}
		look() <- nil
		synctest.Wait()
		r.wantStrategy(StrategyRequest)
		r.wantFresh(0)
	})
}

// TestFaultsAreProbed: once a minute at most, and what they showed counts until then; a
// probe that fails changes nothing.
func TestFaultsAreProbed(t *testing.T) {
	var probes atomic.Int64
	var failing atomic.Bool
	probe := func(context.Context) (Properties, error) {
		probes.Add(1)
		if failing.Load() {
			return Properties{}, errors.New("nobody there")
		}
		return sane, nil
	}
	bubble(t, setup{cfg: Config{Probe: probe}}, func(t *testing.T, r *rig) {
		synctest.Wait()
		r.wantStrategy(StrategyRequest)
		for range 2 {
			r.backend.chooser.found(func(p *Properties) { p.ProgressOrdered = VerdictNo })
			synctest.Wait()
			r.wantStrategy(StrategyDirect)
		}
		time.Sleep(doubtProbe - 10*time.Second) // it was probed some time ago
		if n := probes.Load(); n != 1 {
			t.Errorf("%d probes within a minute", n)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if n := probes.Load(); n != 2 {
			t.Errorf("%d probes after a minute", n)
		}
		r.wantStrategy(StrategyRequest)

		failing.Store(true)
		r.backend.prober.doubt("a test")
		time.Sleep(2 * doubtProbe)
		synctest.Wait()
		r.wantStrategy(StrategyRequest)
		failing.Store(false)
		time.Sleep(maxRetryProbe + time.Second)
		before := probes.Load()
		time.Sleep(time.Hour)
		if n := probes.Load(); n > before+1 {
			t.Errorf("%d probes of a backend that is well", n-before)
		}
	})
}

// TestFailedProbesAreMadeAgain: after a second, and then less and less often, until one
// succeeds.
func TestFailedProbesAreMadeAgain(t *testing.T) {
	var began time.Time // the bubble's
	var mu sync.Mutex
	var at []time.Duration
	fails := true
	probe := func(context.Context) (Properties, error) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Since(began).Round(time.Second))
		if fails {
			return Properties{}, errors.New("half of it")
		}
		return sane, nil
	}
	bubble(t, setup{cfg: Config{Probe: probe}, before: func(*rig) { began = time.Now() }}, func(t *testing.T, r *rig) {
		wantAt := func(seconds ...time.Duration) {
			t.Helper()
			settled()
			mu.Lock()
			defer mu.Unlock()
			for i := range seconds {
				seconds[i] *= time.Second
			}
			if !slices.Equal(at, seconds) {
				t.Fatalf("probes at %v, want %v", at, seconds)
			}
		}
		time.Sleep(250*time.Second - time.Since(began))
		wantAt(0, 1, 3, 7, 15, 31, 63, 123, 183, 243)
		set := func(failing bool) {
			mu.Lock()
			defer mu.Unlock()
			at, fails = nil, failing
		}
		set(false)
		time.Sleep(304*time.Second - time.Since(began))
		set(true)
		r.backend.prober.doubt("a test")
		time.Sleep(61 * time.Second)
		wantAt(363, 364)
	})
}

// TestReadsEndWithTheBackend: also those that wait for the first probe.
func TestReadsEndWithTheBackend(t *testing.T) {
	probe := func(ctx context.Context) (Properties, error) {
		<-ctx.Done()
		return Properties{}, context.Cause(ctx)
	}
	bubble(t, setup{cfg: Config{Probe: probe}}, func(t *testing.T, r *rig) {
		began := time.Now()
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrClosed) || time.Since(began) > 0 {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		})
		settled()
		if err := r.backend.Close(); err != nil {
			t.Error(err)
		}
		reading.Wait()
	})
}

// TestExplicitStrategyIsNotProbed: nothing is to be decided.
func TestExplicitStrategyIsNotProbed(t *testing.T) {
	probe := func(context.Context) (Properties, error) {
		t.Error("it was probed")
		return Properties{}, nil
	}
	bubble(t, setup{cfg: Config{Probe: probe, Strategy: StrategyRequest}}, func(t *testing.T, r *rig) {
		r.wantFresh(0)
		r.wantStrategy(StrategyRequest)
	})
}
