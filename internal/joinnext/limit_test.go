package joinnext

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// behind lets this process be behind, by as much as it says, until the test ends.
func behind(t *testing.T, by func() time.Duration) {
	before := lag
	lag = func(time.Time) time.Duration { return by() }
	t.Cleanup(func() {
		time.Sleep(2 * maxStretch * time.Second) // no limit looks any more
		synctest.Wait()
		lag = before
	})
}

// TestLimitsOfASlowProcess: callers and calls whose time is over go on while the process is
// too slow to see whether they were answered, and no longer.
func TestLimitsOfASlowProcess(t *testing.T) {
	const patience = time.Second
	for name, row := range map[string]struct {
		slowFor, answers time.Duration
		fine             bool
		after            time.Duration
	}{
		"answered while it is slow": {3 * time.Second, 2500 * time.Millisecond, true, 2500 * time.Millisecond},
		"not answered":              {3 * time.Second, time.Hour, false, 3 * time.Second},
		"always slow":               {time.Hour, time.Hour, false, maxStretch * patience},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, inline bool) {
				began := time.Now()
				behind(t, func() time.Duration {
					if time.Since(began) < row.slowFor {
						return 100 * time.Millisecond
					}
					return 0
				})
				g := New(func(ctx context.Context, _ Call) (int64, error) {
					select {
					case <-time.After(row.answers):
						return 7, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				}, Config{Timeout: patience, Patience: patience, Inline: inline})
				defer g.Close()
				got := <-ask(t.Context(), g)
				if fine := got.err == nil; fine != row.fine || !fine && !errors.Is(got.err, ErrTimeout) {
					t.Errorf("got %v", got.err)
				}
				if got.after < row.after || got.after > row.after+patience {
					t.Errorf("after %v, want %v", got.after, row.after)
				}
			})
		})
	}
}

// TestSlowProcessKeepsDeadlines: a caller's own deadline ends its wait in any case.
func TestSlowProcessKeepsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind(t, func() time.Duration { return time.Second })
		g := New(func(ctx context.Context, _ Call) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, Config{Timeout: time.Second, Patience: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if got := <-ask(ctx, g); got.after != 2*time.Second || !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		g.Close()
		time.Sleep(maxStretch * time.Second) // its timers end
	})
}

// TestOldLimitEndsNoOtherCall: the time of one call is not over with that of the one before.
func TestOldLimitEndsNoOtherCall(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		const takes = 900 * time.Millisecond
		g := New(func(ctx context.Context, _ Call) (int64, error) {
			select {
			case <-time.After(takes):
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}, Config{Timeout: time.Second, Inline: inline})
		defer g.Close()
		for range 3 {
			if got := <-ask(t.Context(), g); got.err != nil || got.after != takes {
				t.Errorf("after %v: %v", got.after, got.err)
			}
		}
	})
}

// TestLagOfEveryMachine: what every busy machine lags behind does not make a limit longer.
func TestLagOfEveryMachine(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		behind(t, func() time.Duration { return anyLag })
		g := New(func(ctx context.Context, _ Call) (int64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, Config{Timeout: time.Second, Patience: time.Second, Inline: inline})
		defer g.Close()
		if got := <-ask(t.Context(), g); !errors.Is(got.err, ErrTimeout) || got.after > time.Second {
			t.Errorf("after %v: %v", got.after, got.err)
		}
	})
}
