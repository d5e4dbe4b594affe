package decorator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// TestErrorTable provokes every row of section 5's table of failures, with every
// verb.
func TestErrorTable(t *testing.T) {
	tooLarge := errors.New("upstream's TooLargeResourceVersion")
	for name, row := range map[string]struct {
		setup       setup
		fault       func(*rig)
		rv          string
		kind        error
		code, watch int // HTTP status of list and get, and of watch
		event       bool
		result      outcome
		cause       error // in the chain, too
	}{
		"no floor": {
			fault: func(r *rig) { r.failFloors(errNoQuorum) },
			kind:  ErrNoFloor, code: 504, watch: 429, result: outcomeNoFloor, cause: errNoQuorum,
		},
		"floor zero": {
			fault: func(r *rig) { r.failFloors(nil) },
			kind:  ErrNoFloor, code: 504, watch: 429, result: outcomeNoFloor, cause: freshness.ErrZeroRevision,
		},
		"floor that does not come": {
			fault: func(r *rig) { r.blockFloors() },
			kind:  ErrNoFloor, code: 504, watch: 429, result: outcomeNoFloor, cause: freshness.ErrTimeout,
		},
		"not fresh": {
			fault: func(r *rig) { r.cached.Hold(); r.memory.Bump() },
			kind:  ErrNotFresh, code: 504, watch: 429, result: outcomeNotFresh, cause: errMaxWait,
		},
		"not fresh, without a Feed": {
			setup: setup{feedless: true},
			fault: func(r *rig) { r.cached.Hold(); r.memory.Bump() },
			kind:  ErrNotFresh, code: 504, watch: 429, result: outcomeNotFresh, cause: errMaxWait,
		},
		"N to come": {
			fault: func(*rig) {}, rv: "1000",
			kind: tooLarge, code: 504, watch: 504, event: true, result: outcomeTooLarge,
		},
		"not ready": {
			setup: setup{filling: true},
			fault: func(*rig) {},
			kind:  ErrNotReady, code: 429, watch: 429, result: outcomeNotReady,
		},
		"rewound": {
			fault: func(r *rig) { r.restore() },
			kind:  &RewoundError{}, code: 503, watch: 429, result: outcomeRewound,
		},
		"closed": {
			fault: func(r *rig) { r.closeBackend() },
			kind:  ErrClosed, code: 503, watch: 503, event: true, result: outcomeError,
		},
	} {
		for v := range verbs {
			if v == verbGet && name == "not ready" {
				continue // upstream sends it to the storage: see TestNotReadyGoesToStorage
			}
			t.Run(name+"/"+v.String(), func(t *testing.T) {
				bubble(t, row.setup, func(t *testing.T, r *rig) {
					if !row.setup.filling {
						r.put("a")
						settled()
					}
					row.fault(r)
					rv, route := "0", routeFloor
					if row.rv != "" {
						rv, route = row.rv, routeLeast
					}
					code := row.code
					var err error
					if v == verbWatch {
						code = row.watch
						err = watchError(t, r.store, rv, row.event)
					} else {
						_, err = readA(t.Context(), v.String(), r.store, rv)
					}
					checkStatus(t, err, code)
					if isTooLarge := storage.IsTooLargeResourceVersion(err); isTooLarge != (row.kind == tooLarge) {
						t.Errorf("%v has upstream's TooLarge cause: %t", err, isTooLarge)
					}
					if loops := strings.Contains(err.Error(), "Too large resource version"); loops != (row.kind == tooLarge) {
						t.Errorf("%v has the text on which client-go loops: %t", err, loops)
					}
					// An ERROR event carries no chain.
					if !row.event && row.kind != tooLarge {
						checkChain(t, err, row.kind, row.cause)
					}
					counted := 1.0
					if name == "closed" {
						counted = 0 // the series went with the Store
					}
					if n := r.reads(v, route, row.result); n != counted {
						t.Errorf("%v reads were counted as %s, want %v", n, row.result, counted)
					}
				})
			})
		}
	}
}

var errNoQuorum = errors.New("no quorum")

func checkStatus(t *testing.T, err error, code int) {
	t.Helper()
	// As the handlers of an API server do, which do not unwrap.
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatalf("%v (%T) has no API status", err, err)
	}
	got := status.Status()
	if int(got.Code) != code || got.Status != "Failure" {
		t.Errorf("got %s %d %s (%v), want %d %s", got.Status, got.Code, got.Reason, err, code, http.StatusText(code))
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); got.Details == nil || got.Details.RetryAfterSeconds != 1 || seconds != 1 || !ok {
		t.Errorf("%v says to retry after %d seconds (%t), want 1", err, seconds, ok)
	}
}

func checkChain(t *testing.T, err, kind, cause error) {
	t.Helper()
	if _, rewound := kind.(*RewoundError); rewound {
		if found, ok := errors.AsType[*RewoundError](err); !ok || found.Seen <= found.Read {
			t.Errorf("%v holds %+v, want a RewoundError that says what was seen", err, found)
		}
	} else if !errors.Is(err, kind) {
		t.Errorf("%v is not %q", err, kind)
	}
	if cause != nil && !errors.Is(err, cause) {
		t.Errorf("%v does not hold its cause, %q", err, cause)
	}
}

// watchError is the error of a Watch: that of the call, or that of its one event.
func watchError(t *testing.T, s storage.Interface, rv string, inEvent bool) error {
	t.Helper()
	w, err := s.Watch(t.Context(), "/pods/", everything(rv))
	if (err == nil) != inEvent {
		t.Fatalf("Watch returned %v, want an event instead: %t", err, inEvent)
	}
	if err != nil {
		return err
	}
	events := received(w)
	if len(events) != 1 || failureOf(events[0]) == nil {
		t.Fatalf("the watch delivered %q, want one ERROR", shorts(events))
	}
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on after its ERROR")
	}
	return failureOf(events[0])
}

// blockFloors makes reads of the Source wait for the end of their context.
func (r *rig) blockFloors() {
	r.writer.OnRevision(func(ctx context.Context, _ uint64) (uint64, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
}

// restore takes the backend back to before anything was written.
func (r *rig) restore() {
	r.t.Helper()
	if err := r.memory.Restore(1); err != nil {
		r.t.Fatal(err)
	}
	settled()
}

func (r *rig) closeBackend() {
	r.t.Helper()
	if err := r.backend.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// TestCallersDeadline: a caller's own deadline is kept to the instant, whatever it
// waits for.
func TestCallersDeadline(t *testing.T) {
	const patience = 100 * time.Millisecond
	for name, row := range map[string]struct {
		setup setup
		fault func(*rig)
		kind  error
	}{
		"cache held":                   {setup{}, func(r *rig) { r.cached.Hold() }, ErrNotFresh},
		"cache held, untapped":         {setup{untapped: true}, func(r *rig) { r.cached.Hold() }, ErrNotFresh},
		"cache held, without a Feed":   {setup{feedless: true}, func(r *rig) { r.cached.Hold() }, ErrNotFresh},
		"source blocked":               {setup{}, func(r *rig) { r.blockFloors() }, ErrNoFloor},
		"progress dropped":             {setup{}, func(r *rig) { r.cached.DropProgress(true) }, ErrNotFresh},
		"progress stands still":        {setup{}, func(r *rig) { r.cached.FreezeProgress(true) }, ErrNotFresh},
		"cache held, Direct is no way": {setup{cfg: Config{OnUnverified: UnverifiedDirect}}, func(r *rig) { r.cached.Hold() }, ErrNotFresh},
	} {
		for verb, read := range reads("0") {
			t.Run(name+"/"+verb, func(t *testing.T) {
				bubble(t, row.setup, func(t *testing.T, r *rig) {
					r.put("a")
					settled()
					row.fault(r)
					r.memory.Bump()
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					start := time.Now()
					err := read(ctx, r.store)
					if waited := time.Since(start); waited != patience {
						t.Errorf("returned after %v, want %v", waited, patience)
					}
					if !errors.Is(err, row.kind) || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want %q for the deadline", err, row.kind)
					}
				})
			})
		}
	}
}

// TestStockMissesDeadline is why the test above exists.
func TestStockMissesDeadline(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		raw, stock := r.stock()
		raw.Hold()
		r.put("a")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		list(ctx, stock, everything(""))
		if waited := time.Since(start); waited < 3*time.Second {
			t.Errorf("upstream's cache returned after %v: it heeds deadlines now", waited)
		}
	})
}

// TestCancellation: a caller that goes away gets its own context's error at once,
// and is no failure.
func TestCancellation(t *testing.T) {
	for name, fault := range map[string]func(*rig){
		"cache held":     func(r *rig) { r.cached.Hold() },
		"source blocked": func(r *rig) { r.blockFloors() },
	} {
		for v := range verbs {
			t.Run(name+"/"+v.String(), func(t *testing.T) {
				bubble(t, setup{}, func(t *testing.T, r *rig) {
					fault(r)
					r.memory.Bump()
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error)
					start := time.Now()
					go func() { done <- reads("0")[v.String()](ctx, r.store) }()
					settled()
					cancel()
					if err := <-done; err != context.Canceled {
						t.Errorf("got %v, want the context's own error", err)
					}
					if waited := time.Since(start); waited != 0 {
						t.Errorf("waited %v", waited)
					}
					if n := r.reads(v, routeFloor, outcomeCanceled); n != 1 {
						t.Errorf("%v reads were counted as canceled, want 1", n)
					}
				})
			})
		}
	}
}

// TestFuture: a revision that does not exist yet is refused at once, where stock
// waits 3 s or, for a Watch, drops the events up to it.
func TestFuture(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a")
		_, stock := r.stock()
		rv := formatRevision(r.memory.Bump() + 1)
		for verb, read := range reads(rv) {
			start := time.Now()
			if err := read(t.Context(), r.store); !storage.IsTooLargeResourceVersion(err) {
				t.Errorf("%s: got %v", verb, err)
			}
			if waited := time.Since(start); waited != 0 {
				t.Errorf("%s: waited %v", verb, waited)
			}
			start = time.Now()
			err := read(t.Context(), stock)
			if verb == "watch" {
				if err != nil {
					t.Errorf("upstream's cache refuses a watch from the future now: %v", err)
				}
			} else if waited := time.Since(start); waited < 3*time.Second || !storage.IsTooLargeResourceVersion(err) {
				t.Errorf("upstream's cache answers a %s from the future with %v after %v", verb, err, waited)
			}
		}
	})
}
