package decorator

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// TestNotReadyGoesToStorage: what upstream sends to the storage while its cache is
// being filled goes there at once.
func TestNotReadyGoesToStorage(t *testing.T) {
	for name, read := range map[string]func(context.Context, storage.Interface) (string, error){
		"list with a limit": func(ctx context.Context, s storage.Interface) (string, error) {
			pods, err := list(ctx, s, listOptions{limit: 5}.options())
			return pods.ResourceVersion, err
		},
		"list at 0 with a limit": func(ctx context.Context, s storage.Interface) (string, error) {
			pods, err := list(ctx, s, listOptions{rv: "0", limit: 5}.options())
			return pods.ResourceVersion, err
		},
		"get at 0": func(ctx context.Context, s storage.Interface) (string, error) { return readA(ctx, "get", s, "0") },
		"get at N": func(ctx context.Context, s storage.Interface) (string, error) { return readA(ctx, "get", s, "2") },
		"get":      func(ctx context.Context, s storage.Interface) (string, error) { return readA(ctx, "get", s, "") },
	} {
		for kind, s := range map[string]setup{"feed": {filling: true}, "no feed": {filling: true, feedless: true}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				bubble(t, s, func(t *testing.T, r *rig) {
					newest := r.put("a")
					start := time.Now()
					rv, err := read(t.Context(), r.store)
					if err != nil || rv != formatRevision(newest) {
						t.Errorf("got %q, %v; want %d", rv, err, newest)
					}
					if waited := time.Since(start); waited != 0 {
						t.Errorf("waited %v", waited)
					}
				})
			})
		}
	}
}

// notReadyReads are those that upstream refuses while its cache is being filled.
func notReadyReads() map[string]func(context.Context, storage.Interface) error {
	all := map[string]func(context.Context, storage.Interface) error{
		"list":        reads("")["list"],
		"list at 0":   reads("0")["list"],
		"watch":       reads("")["watch"],
		"watch at 0":  reads("0")["watch"],
		"list at N":   reads("2")["list"],
		"watch at N":  reads("2")["watch"],
		"no initials": func(ctx context.Context, s storage.Interface) error { return openAndStop(ctx, s, new(false)) },
	}
	all["filtered list with a limit"] = func(ctx context.Context, s storage.Interface) error {
		opts := listOptions{limit: 5}.options()
		opts.Predicate = selecting("app=x", "")
		opts.Predicate.Limit = 5
		return s.GetList(ctx, "/pods/", opts, &example.PodList{})
	}
	return all
}

func openAndStop(ctx context.Context, s storage.Interface, initial *bool) error {
	w, err := s.Watch(ctx, "/pods/", listOptions{initial: initial}.options())
	if err != nil {
		return err
	}
	defer w.Stop()
	return firstFailure(w)
}

// TestNotReadyWaits: the rest waits for ReadyWait and no longer, and then gets 429.
func TestNotReadyWaits(t *testing.T) {
	const readyWait = 300 * time.Millisecond
	for verb, read := range notReadyReads() {
		for kind, s := range map[string]setup{"feed": {filling: true}, "no feed": {filling: true, feedless: true}} {
			t.Run(verb+"/"+kind, func(t *testing.T) {
				s.cfg.ReadyWait = readyWait
				bubble(t, s, func(t *testing.T, r *rig) {
					r.put("a")
					start := time.Now()
					err := read(t.Context(), r.store)
					if !errors.Is(err, ErrNotReady) {
						t.Errorf("got %v", err)
					}
					checkStatus(t, err, 429)
					if waited := time.Since(start); waited != readyWait {
						t.Errorf("waited %v, want %v", waited, readyWait)
					}
				})
			})
		}
	}
}

// TestBecomesReady: a read that waits for the fill goes on when it has ended, and
// is fresh.
func TestBecomesReady(t *testing.T) {
	const filled = 50 * time.Millisecond
	for verb, read := range notReadyReads() {
		for kind, s := range map[string]setup{"feed": {filling: true}, "no feed": {filling: true, feedless: true}} {
			t.Run(verb+"/"+kind, func(t *testing.T) {
				bubble(t, s, func(t *testing.T, r *rig) {
					r.put("a")
					time.AfterFunc(filled, r.cached.Release)
					start := time.Now()
					if err := read(t.Context(), r.store); err != nil {
						t.Errorf("got %v", err)
					}
					// Without a Feed nobody tells of the fill: the cache is looked at.
					if waited := time.Since(start); waited < filled || waited > filled+pilotReadyEach+maxFirstKick {
						t.Errorf("waited %v, the fill ended after %v", waited, filled)
					}
				})
			})
		}
	}
}

// maxFirstKick bounds the time until a pilot that was refused asks again.
const maxFirstKick = pilotMaxBackoff

// TestNotReadyDefault: a zero Config waits 200 ms.
func TestNotReadyDefault(t *testing.T) {
	bubble(t, setup{filling: true}, func(t *testing.T, r *rig) {
		start := time.Now()
		if _, err := list(t.Context(), r.store, everything("")); !errors.Is(err, ErrNotReady) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != 200*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

// TestNotReadyCallersDeadline: a caller that waits less than ReadyWait is told the
// same reason, at its own deadline.
func TestNotReadyCallersDeadline(t *testing.T) {
	bubble(t, setup{filling: true}, func(t *testing.T, r *rig) {
		const deadline = defaultReadyWait / 4
		for name, read := range notReadyReads() {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			start := time.Now()
			if err := read(ctx, r.store); !errors.Is(err, ErrNotReady) || time.Since(start) != deadline {
				t.Errorf("%s: %v after %v, want ErrNotReady after %v", name, err, time.Since(start), deadline)
			}
			cancel()
		}
	})
}
