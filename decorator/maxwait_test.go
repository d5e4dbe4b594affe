package decorator

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestMaxWaitCountsFromArrival: waits for one thing after another do not add up.
func TestMaxWaitCountsFromArrival(t *testing.T) {
	const maxWait = 3 * time.Second
	for name, row := range map[string]struct {
		cfg   Config
		fill  bool          // is held back for so long
		held  time.Duration // what comes first
		fault func(*rig)    // what comes next, for ever
		kind  error
	}{
		"a probe, then the floor":       {cfg: Config{}, held: 2900 * time.Millisecond, fault: func(r *rig) { r.blockFloors() }, kind: ErrNoFloor},
		"a short probe, then the floor": {cfg: Config{}, held: 10 * time.Millisecond, fault: func(r *rig) { r.blockFloors() }, kind: ErrNoFloor},
		"a probe, then the cache":       {cfg: Config{}, held: 2900 * time.Millisecond, fault: func(r *rig) { r.cached.Hold() }, kind: ErrNotFresh},
		"the fill, then the floor":      {cfg: Config{ReadyWait: maxWait}, fill: true, held: 2900 * time.Millisecond, fault: func(r *rig) { r.blockFloors() }, kind: ErrNoFloor},
		"the fill, and no more":         {cfg: Config{ReadyWait: maxWait}, fill: true, held: time.Hour, fault: func(*rig) {}, kind: ErrNotReady},
		"a probe, then the fill":        {cfg: Config{ReadyWait: maxWait}, fill: true, held: 2 * time.Second, fault: func(*rig) {}, kind: ErrNotReady},
	} {
		for _, verb := range []string{"list", "watch"} {
			t.Run(name+"/"+verb, func(t *testing.T) {
				looks := func() bool { return !row.fill || name == "a probe, then the fill" }()
				row.cfg.MaxWait = maxWait
				if looks {
					row.cfg.Probe = func(ctx context.Context) (Properties, error) {
						// After the rig has settled.
						select {
						case <-time.After(time.Second + row.held):
							return sane, nil
						case <-ctx.Done():
							return Properties{}, context.Cause(ctx)
						}
					}
				}
				s := setup{cfg: row.cfg, filling: row.fill, noRaw: true}
				bubble(t, s, func(t *testing.T, r *rig) {
					if row.fill && looks {
						time.Sleep(time.Second)
					}
					r.memory.Bump()
					row.fault(r)
					if row.fill && !looks {
						time.AfterFunc(row.held, r.cached.Release)
					}
					came := time.Now()
					err := reads("")[verb](t.Context(), r.store)
					if waited := time.Since(came); waited > maxWait || waited < maxWait-maxWait/64 {
						t.Errorf("failed after %v, want %v", waited, maxWait)
					}
					if !errors.Is(err, row.kind) {
						t.Errorf("got %v, want %v", err, row.kind)
					}
				})
			})
		}
	}
}
