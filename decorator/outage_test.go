package decorator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

// logged collects what is logged until the test ends.
func logged(t *testing.T) func() []string {
	var mu sync.Mutex
	var lines []string
	klog.SetLogger(funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{}))
	t.Cleanup(func() { klog.SetLogger(klog.Logger{}) })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), lines...)
	}
}

// TestOutageHoldsNoSeats: once the backend has been out of reach for some seconds, reads
// that need it do not wait for it, so that they fill no priority level; those that do not
// need it are answered as ever; and when it is back it is seen at once, with one line in
// the log for each.
func TestOutageHoldsNoSeats(t *testing.T) {
	const (
		grace = 100 * time.Millisecond // that a read may wait for a probe
		each  = time.Second            // that a probe is sent
	)
	for _, pulse := range []time.Duration{-1, time.Minute} {
		t.Run(pulse.String(), func(t *testing.T) {
			lines := logged(t)
			bubble(t, setup{cfg: Config{Pulse: pulse}}, func(t *testing.T, r *rig) {
				applied := formatRevision(r.put("a"))
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Fatal(err)
				}
				before := len(lines())
				r.blockFloors()
				out := time.Now()
				var seats, most, failed, floors atomic.Int64
				var readers sync.WaitGroup
				read := func(verb string) {
					readers.Go(func() {
						most.Store(max(most.Load(), seats.Add(1)))
						defer seats.Add(-1)
						came := time.Now()
						err := reads("")[verb](t.Context(), r.store)
						waited := time.Since(came)
						failed.Add(1)
						if !errors.Is(err, ErrNoFloor) || waited > defaultMaxWait {
							t.Errorf("%s after %v: %v", verb, waited, err)
						}
						if came.Sub(out) <= failFast+grace { // counted from the first read in it
							return
						}
						if waited > grace {
							t.Errorf("a %s was held for %v, %v into the outage", verb, waited, came.Sub(out))
						}
						status := err.(apierrors.APIStatus).Status()
						if want := map[string]int32{"list": 504, "watch": 429}[verb]; status.Code != want {
							t.Errorf("%s: status %d, want %d", verb, status.Code, want)
						}
						// At once a second, and more with each failed try.
						if retry := time.Duration(status.Details.RetryAfterSeconds) * time.Second; retry < each || retry > 10*each ||
							came.Sub(out) > 20*time.Second && retry != 10*each {
							t.Errorf("%s: retry after %v, %v into the outage", verb, retry, came.Sub(out))
						}
					})
				}
				for range 600 { // a minute
					time.Sleep(100 * time.Millisecond)
					read("list")
					read("watch")
					if time.Since(out) == 10*time.Second {
						most.Store(0)
						floors.Store(r.floorReads())
					}
				}
				if n := r.floorReads() - floors.Load(); n > 55 {
					t.Errorf("the backend was read %d times in 50 s", n)
				}
				if most.Load() > 4 { // two come at a time
					t.Errorf("%d reads were held at once", most.Load())
				}
				// 150 at once, and a read that needs no floor.
				for range 150 {
					read("list")
				}
				came := time.Now()
				if _, err := list(t.Context(), r.store, everything(applied)); err != nil || time.Since(came) != 0 {
					t.Errorf("a read at a revision that the cache has: after %v, %v", time.Since(came), err)
				}
				readers.Wait()
				if time.Since(came) > grace {
					t.Errorf("they were held for %v", time.Since(came))
				}
				if begun := lines()[before:]; len(begun) != 1 || !strings.Contains(begun[0], "cannot be read") {
					t.Errorf("logged %q, want one line of the outage", begun)
				}

				r.writer.OnRevision(nil)
				back := time.Now()
				for {
					if _, err := list(t.Context(), r.store, everything("")); err == nil {
						break
					}
					failed.Add(1)
					time.Sleep(50 * time.Millisecond)
				}
				if after := time.Since(back); after > each+grace {
					t.Errorf("reads succeed %v after the backend was back", after)
				}
				if all := lines()[before:]; len(all) != 2 || !strings.Contains(all[1], "can be read again") {
					t.Errorf("logged %q, want one line more of its end", all)
				}
				if n := r.reads(verbList, routeFloor, outcomeNoFloor); n < 600 {
					t.Errorf("%v reads were counted as no_floor", n)
				}
			})
		})
	}
}

// TestOutageBeforeTheFirstLook: where nobody could look at the backend as it is out of reach, a
// LIST fails within MaxWait, and none is sent to the storage, where it would hang.
func TestOutageBeforeTheFirstLook(t *testing.T) {
	blind := func(context.Context) (Properties, error) { return Properties{}, ErrUnreachable }
	for _, policy := range []OnUnverified{UnverifiedFail, UnverifiedQuorum, UnverifiedStale} {
		t.Run(string(policy), func(t *testing.T) {
			gate := &turnstile{}
			wrap := func(raw storage.Interface) storage.Interface { gate.Interface = raw; return gate }
			bubble(t, setup{cfg: Config{Probe: blind, OnUnverified: policy}, raw: wrap}, func(t *testing.T, r *rig) {
				r.blockFloors()
				gate.onList = func(ctx context.Context, _ storage.ListOptions, _ runtime.Object, _ func() error) error {
					gate.lists.Add(1)
					<-ctx.Done()
					return ctx.Err()
				}
				for range 5 {
					began := time.Now()
					_, err := list(t.Context(), r.store, everything(""))
					took := time.Since(began)
					if failed := errors.Is(err, ErrNoFloor); failed == (policy == UnverifiedStale) || took > defaultMaxWait {
						t.Errorf("after %v: %v", took, err)
					}
				}
				if n := gate.lists.Load(); n != 0 {
					t.Errorf("%d lists were sent to the storage", n)
				}
			})
		})
	}
}
