package freshness

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rvfloor/rvfloor/internal/joinnext/joinrule"
)

// fake is a backend whose reads take a second of the bubble's clock.
type fake struct {
	revision atomic.Uint64
	reads    atomic.Int64
	err      error
}

func (b *fake) Read(ctx context.Context) (Reading, error) {
	b.reads.Add(1)
	select {
	case <-time.After(time.Second):
		return Reading{Revision: b.revision.Load()}, b.err
	case <-ctx.Done():
		return Reading{}, ctx.Err()
	}
}

func newFloors(t *testing.T, src Source, cfg Config) *Floors {
	t.Helper()
	floors, err := NewFloors(src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = floors.Close() })
	return floors
}

// at returns a fake backend at a revision.
func at(revision uint64) *fake {
	b := &fake{}
	b.revision.Store(revision)
	return b
}

func TestNewFloorsNamesWhatIsWrong(t *testing.T) {
	for name, make := range map[string]func() (*Floors, error){
		"src":            func() (*Floors, error) { return NewFloors(nil, Config{}) },
		"src ":           func() (*Floors, error) { return NewFloors(SourceFunc(nil), Config{}) },
		"Config.Timeout": func() (*Floors, error) { return NewFloors(at(1), Config{Timeout: -1}) },
	} {
		if floors, err := make(); floors != nil || err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v, %v", name, floors, err)
		}
	}
	floors, err := NewFloors(at(1), Config{})
	if err != nil {
		t.Fatal(err)
	}
	_ = floors.Close()
}

func TestNextKeepsTheJoinRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := joinrule.Check(func(read joinrule.Read) joinrule.Read {
			floors := newFloors(t, SourceFunc(read), Config{})
			return func(ctx context.Context) (uint64, error) {
				floor, err := floors.Next(ctx)
				return floor.Revision, err
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestNextSharesReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := at(5)
		var infos []ReadInfo
		floors := newFloors(t, backend, Config{Hooks: Hooks{Read: func(info ReadInfo) { infos = append(infos, info) }}})
		if floor, ok := floors.Last(); ok {
			t.Errorf("Last before the first: %v", floor)
		}

		start := time.Now()
		var callers sync.WaitGroup
		next := func(want Floor) {
			callers.Go(func() {
				if got, err := floors.Next(t.Context()); err != nil || got != want {
					t.Errorf("got %v, %v; want %v", got, err, want)
				}
			})
		}
		next(Floor{5, start})
		synctest.Wait()
		for range 999 {
			next(Floor{5, start.Add(time.Second)})
		}
		callers.Wait()

		if n := backend.reads.Load(); n != 2 {
			t.Errorf("%d reads, want 2", n)
		}
		want := []ReadInfo{
			{Outcome: OutcomeOK, Revision: 5, Duration: time.Second, Callers: 1},
			{Outcome: OutcomeOK, Revision: 5, Duration: time.Second, Callers: 999},
		}
		if len(infos) != 2 || infos[0] != want[0] || infos[1] != want[1] {
			t.Errorf("hooks: %+v", infos)
		}
		if floor, ok := floors.Last(); !ok || floor != (Floor{5, start.Add(time.Second)}) {
			t.Errorf("Last: %v, %v", floor, ok)
		}
	})
}

// TestSharedFailure: 1000 callers and a failing source make two reads, and the
// error says what the source said.
func TestSharedFailure(t *testing.T) {
	down := errors.New("backend is down")
	for _, test := range []struct {
		name    string
		backend *fake
		outcome Outcome
		want    error
	}{
		{"error", &fake{err: down}, OutcomeError, down},
		{"zero", &fake{}, OutcomeBad, ErrZeroRevision},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// A read is held up until all callers are there.
				gate := make(chan struct{})
				first := true
				var infos []ReadInfo
				floors := newFloors(t, sourceFunc(func(ctx context.Context) (Reading, error) {
					if first {
						first = false
						<-gate
						return Reading{Revision: 1}, nil
					}
					return test.backend.Read(ctx)
				}), Config{Hooks: Hooks{Read: func(info ReadInfo) { infos = append(infos, info) }}})

				var callers sync.WaitGroup
				callers.Go(func() { _, _ = floors.Next(t.Context()) })
				synctest.Wait()
				for range 1000 {
					callers.Go(func() {
						floor, err := floors.Next(t.Context())
						if !errors.Is(err, test.want) || floor != (Floor{}) {
							t.Errorf("got %v, %v", floor, err)
						}
					})
				}
				synctest.Wait()
				close(gate)
				callers.Wait()
				if n := test.backend.reads.Load(); n != 2 {
					t.Errorf("%d reads, want 2", n)
				}
				for _, info := range infos[1:] {
					if info.Outcome != test.outcome || !errors.Is(info.Err, test.want) || info.Callers != 1000 {
						t.Errorf("hook: %+v", info)
					}
				}
				if floor, _ := floors.Last(); floor.Revision != 1 {
					t.Errorf("a failure became the last floor: %v", floor)
				}
			})
		})
	}
}

// sourceFunc is SourceFunc for whole readings.
type sourceFunc func(ctx context.Context) (Reading, error)

func (f sourceFunc) Read(ctx context.Context) (Reading, error) { return f(ctx) }

func TestCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		infos := make(chan ReadInfo, 2)
		backend := at(5)
		floors := newFloors(t, backend, Config{Hooks: Hooks{Read: func(info ReadInfo) { infos <- info }}})

		hungUp := errors.New("hung up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, hungUp)
		defer cancel()
		start := time.Now()
		_, err := floors.Next(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, hungUp) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if info := <-infos; info.Outcome != OutcomeCanceled || info.Duration != 100*time.Millisecond {
			t.Errorf("hook: %+v", info)
		}
		if _, err := floors.Within(ctx, time.Hour); !errors.Is(err, hungUp) {
			t.Errorf("Within: %v", err)
		}
	})
}

func TestSharedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var infos []ReadInfo
		floors := newFloors(t, at(5), Config{
			Timeout: 100 * time.Millisecond,
			Hooks:   Hooks{Read: func(info ReadInfo) { infos = append(infos, info) }},
		})
		start := time.Now()
		_, err := floors.Next(t.Context())
		if !errors.Is(err, ErrTimeout) {
			t.Errorf("got %v", err)
		}
		// It joined another after the first had failed.
		if took := time.Since(start); took != 200*time.Millisecond {
			t.Errorf("took %v", took)
		}
		for _, info := range infos {
			if info.Outcome != OutcomeError || !errors.Is(info.Err, ErrTimeout) || info.Duration != 100*time.Millisecond {
				t.Errorf("hook: %+v", info)
			}
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		infos := make(chan ReadInfo, 2)
		backend := at(5)
		floors := newFloors(t, backend, Config{Hooks: Hooks{Read: func(info ReadInfo) { infos <- info }}})
		if _, err := floors.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-infos

		start := time.Now()
		var callers sync.WaitGroup
		for range 1000 {
			callers.Go(func() {
				if _, err := floors.Next(t.Context()); err != ErrClosed {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		for range 2 {
			if err := floors.Close(); err != nil {
				t.Error(err)
			}
		}
		callers.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		if _, err := floors.Next(t.Context()); err != ErrClosed {
			t.Errorf("Next: %v", err)
		}
		if _, err := floors.Within(t.Context(), time.Hour); err != ErrClosed {
			t.Errorf("Within: %v", err)
		}
		if info := <-infos; info.Outcome != OutcomeCanceled {
			t.Errorf("hook: %+v", info)
		}
	})
}

func TestPanickingSource(t *testing.T) {
	infos := make(chan ReadInfo, 2)
	floors := newFloors(t, sourceFunc(func(context.Context) (Reading, error) { panic("boom") }),
		Config{Hooks: Hooks{Read: func(info ReadInfo) { infos <- info }}})
	floor, err := floors.Next(t.Context())
	if err == nil || !strings.Contains(err.Error(), "boom") || floor != (Floor{}) {
		t.Errorf("got %v, %v", floor, err)
	}
	if info := <-infos; info.Outcome != OutcomeError || info.Err == nil {
		t.Errorf("hook: %+v", info)
	}
}
