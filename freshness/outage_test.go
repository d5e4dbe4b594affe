package freshness

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

var errDown = errors.New("down")

// faulty is a Source that is down or not, and counts.
type faulty struct {
	down   atomic.Bool
	silent bool          // while it is down it answers nothing; else an error at once
	takes  time.Duration // a read that is answered
	slow   atomic.Bool   // a read that is sent now takes an hour
	reads  atomic.Int64
}

func (s *faulty) Read(ctx context.Context) (Reading, error) {
	s.reads.Add(1)
	switch {
	case s.down.Load() && s.silent:
		<-ctx.Done()
		return Reading{}, ctx.Err()
	case s.down.Load():
		return Reading{}, errDown
	}
	takes := s.takes
	if s.slow.Load() {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
		return Reading{Revision: 5}, nil
	case <-ctx.Done():
		return Reading{}, ctx.Err()
	}
}

// told collects what the hooks of an outage are called with.
type told struct {
	mu      sync.Mutex
	outages []OutageError
	lasted  []time.Duration
	callers []uint64
}

func (o *told) hooks() Hooks {
	return Hooks{
		Outage: func(err *OutageError) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.outages = append(o.outages, *err)
		},
		Recovered: func(lasted time.Duration, callers uint64) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.lasted, o.callers = append(o.lasted, lasted), append(o.callers, callers)
		},
	}
}

const (
	failFast = 3 * time.Second
	patience = 3 * time.Second
)

// TestOutage: after the first seconds of an outage callers are held no longer than a few
// round trips, the source is read once a second and not once for each of them, and the
// first answer ends it all.
func TestOutage(t *testing.T) {
	for _, silent := range []bool{false, true} {
		for _, inline := range []bool{false, true} {
			t.Run(fmt.Sprintf("silent %t, inline %t", silent, inline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source := &faulty{silent: silent, takes: time.Millisecond}
					var asked Source = source
					if inline {
						asked = prompt{source}
					}
					var told told
					floors := newFloors(t, asked, Config{Timeout: patience, Patience: patience, FailFast: failFast, Hooks: told.hooks()})
					if _, err := floors.Next(t.Context()); err != nil {
						t.Fatal(err)
					}
					source.down.Store(true)
					began := time.Now()
					const lasts = 60 * time.Second
					var failed, held atomic.Int64
					var retries []time.Duration
					var mu sync.Mutex
					var callers sync.WaitGroup
					for n := range int(lasts / (10 * time.Millisecond)) {
						time.Sleep(10 * time.Millisecond)
						callers.Go(func() {
							came := time.Now()
							_, err := floors.Next(t.Context())
							if err == nil {
								t.Errorf("caller %d got a floor", n)
							}
							failed.Add(1)
							waited := time.Since(came)
							if waited > patience {
								t.Errorf("caller %d waited %v", n, waited)
							}
							if came.Sub(began) <= failFast {
								return
							}
							if waited > probeGrace {
								held.Add(1)
							}
							out, ok := errors.AsType[*OutageError](err)
							if !ok || !silent && !errors.Is(err, errDown) || silent && !errors.Is(err, ErrTimeout) {
								t.Errorf("caller %d got %v", n, err)
								return
							}
							mu.Lock()
							defer mu.Unlock()
							if len(retries) == 0 || retries[len(retries)-1] != out.RetryAfter {
								retries = append(retries, out.RetryAfter)
							}
						})
						if time.Since(began) == failFast {
							source.reads.Store(0)
						}
					}
					callers.Wait()
					// One or two came in the moment in which it opened.
					if held.Load() > 2 {
						t.Errorf("%d callers were held for longer than %v", held.Load(), probeGrace)
					}
					if reads := source.reads.Load(); reads > int64((lasts-failFast)/probeEach)+3 || reads < 30 {
						t.Errorf("%d reads in %v", reads, lasts-failFast)
					}
					want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second}
					if !slices.Equal(retries, want) {
						t.Errorf("told to come again after %v, want %v", retries, want)
					}

					source.down.Store(false)
					for {
						failed.Add(1)
						if _, err := floors.Next(t.Context()); err == nil {
							break
						}
						time.Sleep(10 * time.Millisecond)
					}
					failed.Add(-1)
					lasted := time.Since(began)
					if lasted > lasts+probeEach+probeGrace {
						t.Errorf("floors are read again %v after the source was back", lasted-lasts)
					}
					if len(told.outages) != 1 || len(told.lasted) != 1 || told.callers[0] != uint64(failed.Load()) {
						t.Errorf("told %v, then %v and %v; %d callers failed", told.outages, told.lasted, told.callers, failed.Load())
					}
					// And all is as before.
					source.down.Store(true)
					if _, err := floors.Next(t.Context()); errors.Is(err, errDown) == silent {
						t.Error(err)
					} else if _, out := errors.AsType[*OutageError](err); out && !silent {
						t.Errorf("the first failure after it is an outage: %v", err)
					}
				})
			})
		}
	}
}

// TestReturnIsSeen: who comes first after the source is back gets a floor, however long
// nobody has come.
func TestReturnIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{takes: 50 * time.Millisecond}
		floors := newFloors(t, source, Config{FailFast: failFast, Patience: patience})
		source.down.Store(true)
		failing(t, floors)
		source.down.Store(false)
		time.Sleep(time.Hour)
		came := time.Now()
		if _, err := floors.Next(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(came); waited > 2*source.takes {
			t.Errorf("it waited %v for a probe and a read of %v each", waited, source.takes)
		}
	})
}

// failing lets reads fail until callers are refused.
func failing(t *testing.T, floors *Floors) {
	t.Helper()
	for end := time.Now().Add(2 * failFast); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, err := floors.Next(t.Context())
		if _, out := errors.AsType[*OutageError](err); out {
			return
		}
	}
	t.Fatal("callers are not refused")
}

// TestSlowReturn: a source that has come back slower than a probe may take is found, too.
func TestSlowReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{takes: 2 * time.Second}
		floors := newFloors(t, source, Config{FailFast: failFast, Patience: patience})
		source.down.Store(true)
		failing(t, floors)
		source.down.Store(false)
		back := time.Now()
		for {
			if _, err := floors.Next(t.Context()); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if after := time.Since(back); after > 2*patientRead*probeEach {
			t.Errorf("it was found after %v", after)
		}
	})
}

// TestOneSlowRead: a read that is not answered in time, while the next is, is no outage:
// nobody is refused for it who comes after it, and nobody is told.
func TestOneSlowRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{silent: true, takes: time.Millisecond}
		var told told
		floors := newFloors(t, source, Config{Timeout: patience, Patience: patience, FailFast: failFast, Hooks: told.hooks()})
		source.down.Store(true)
		go floors.Next(t.Context())
		synctest.Wait()
		source.down.Store(false)
		var callers sync.WaitGroup
		for n := range 100 {
			time.Sleep(50 * time.Millisecond)
			callers.Go(func() {
				if _, err := floors.Next(t.Context()); err != nil {
					t.Errorf("caller %d: %v", n, err)
				}
			})
		}
		callers.Wait()
		if told.outages != nil || told.lasted != nil {
			t.Errorf("told %v and %v", told.outages, told.lasted)
		}
	})
}

// TestDoubtProbes: a connection that was made is a sign that the backend is back.
func TestDoubtProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{takes: time.Millisecond}
		floors := newFloors(t, source, Config{FailFast: failFast})
		floors.Doubt()
		synctest.Wait()
		if n := source.reads.Load(); n != 0 {
			t.Errorf("%d reads without an outage", n)
		}
		source.down.Store(true)
		failing(t, floors)
		floors.Next(t.Context()) // a probe
		source.down.Store(false)
		floors.Doubt()
		time.Sleep(10 * time.Millisecond) // sooner than another probe is due
		if _, err := floors.Next(t.Context()); err != nil {
			t.Error(err)
		}

		// One that is in flight may be lost with its connection.
		source.silent = true
		source.down.Store(true)
		failing(t, floors)
		time.Sleep(probeEach)
		floors.Next(t.Context())
		source.down.Store(false)
		time.Sleep(probeGrace)
		floors.Doubt()
		time.Sleep(10 * time.Millisecond)
		if _, err := floors.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseInOutage: Close ends the probe in flight, and no other begins.
func TestCloseInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{silent: true}
		floors := newFloors(t, source, Config{Timeout: patience, FailFast: failFast})
		source.down.Store(true)
		failing(t, floors)
		floors.Doubt()
		synctest.Wait()
		_ = floors.Close()
		floors.Doubt()
		reads := source.reads.Load()
		if _, err := floors.Next(t.Context()); err != ErrClosed || source.reads.Load() != reads {
			t.Errorf("%v, %d reads", err, source.reads.Load()-reads)
		}
	})
}

// TestFailFastIsAChoice: the zero Config refuses nobody.
func TestFailFastIsAChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{}
		source.down.Store(true)
		floors := newFloors(t, source, Config{})
		for range 100 {
			time.Sleep(time.Second)
			_, err := floors.Next(t.Context())
			if _, out := errors.AsType[*OutageError](err); out || !errors.Is(err, errDown) {
				t.Fatal(err)
			}
		}
		if n := source.reads.Load(); n != 200 {
			t.Errorf("%d reads, want two for each caller", n)
		}
	})
}

// TestOutagesAreApart: a second outage is told of as the first was, from its own beginning, and
// with how its own newest read failed. Who gave up by himself is none of those who got no floor.
func TestOutagesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var newest error // nil: it is not down
		source := SourceFunc(func(context.Context) (uint64, error) {
			if newest == nil {
				return 5, nil
			}
			newest = fmt.Errorf("down at %v", time.Now())
			return 0, newest
		})
		var told told
		floors := newFloors(t, source, Config{FailFast: failFast, Patience: patience, Hooks: told.hooks()})
		for n := range 2 {
			newest = errDown
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = floors.Next(canceled)
			var retries []time.Duration
			failed := uint64(0)
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				_, err := floors.Next(t.Context())
				failed++
				out, ok := errors.AsType[*OutageError](err)
				if !ok {
					continue
				}
				if retries = append(retries, out.RetryAfter); out.Err != newest {
					t.Fatalf("outage %d: %v, and the newest read failed with %v", n, out.Err, newest)
				}
			}
			newest = nil
			for ; ; failed++ {
				if _, err := floors.Next(t.Context()); err == nil {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if retries[0] != time.Second || slices.Max(retries) == time.Second {
				t.Errorf("outage %d: told to come again after %v", n, retries)
			}
			if len(told.callers) != n+1 || told.callers[n] != failed {
				t.Errorf("outage %d: told of %v callers, want %d", n, told.callers, failed)
			}
		}
	})
}

// TestOutageWithoutCallers: an outage is told of also where nobody comes.
func TestOutageWithoutCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{}
		var told told
		floors := newFloors(t, source, Config{FailFast: failFast, Patience: patience, Hooks: told.hooks()})
		source.down.Store(true)
		failing(t, floors)
		if len(told.outages) != 0 {
			t.Fatalf("told %v when it had only begun", told.outages)
		}
		floors.Doubt()
		synctest.Wait()
		if len(told.outages) != 1 {
			t.Errorf("told %v", told.outages)
		}
	})
}

// TestPatienceHasTheProbe: the wait for a probe is part of a caller's patience.
func TestPatienceHasTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &faulty{takes: probeGrace * 9 / 10}
		floors := newFloors(t, source, Config{Timeout: patience, Patience: patience, FailFast: failFast})
		source.down.Store(true)
		failing(t, floors)
		source.down.Store(false)
		time.Sleep(time.Hour)
		came := time.Now()
		go func() {
			time.Sleep(source.takes / 2) // the probe has been sent
			source.slow.Store(true)
		}()
		if _, err := floors.Next(t.Context()); !errors.Is(err, ErrTimeout) {
			t.Error(err)
		}
		if waited := time.Since(came); waited > patience {
			t.Errorf("it waited %v", waited)
		}
	})
}

// TestRewoundAfterOutage: a source that comes back with another history is back.
func TestRewoundAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, at := false, uint64(9)
		source := SourceFunc(func(context.Context) (uint64, error) {
			if down {
				return 0, errDown
			}
			return at, nil
		})
		var told told
		floors := newFloors(t, source, Config{FailFast: failFast, Patience: patience, Hooks: told.hooks()})
		if _, err := floors.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		down = true
		failing(t, floors)
		floors.Doubt() // a probe that fails: it is told of
		synctest.Wait()
		down, at = false, 5
		time.Sleep(probeEach)
		_, err := floors.Next(t.Context())
		if _, rewound := errors.AsType[*RewoundError](err); !rewound {
			t.Fatal(err)
		}
		if len(told.lasted) != 1 {
			t.Errorf("told of the end of %d outages", len(told.lasted))
		}
		floors.Renew(floors.Epoch())
		if floor, err := floors.Next(t.Context()); err != nil || floor.Revision != 5 {
			t.Errorf("got %v, %v", floor, err)
		}
	})
}
