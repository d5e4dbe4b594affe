package decorator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// exactReads are those of exactly one revision, each of what comes after ns/a.
func exactReads(revision uint64) map[string]storage.ListOptions {
	rv := formatRevision(revision)
	after := token(int64(revision))
	return map[string]storage.ListOptions{
		"a page":              listOptions{token: after, limit: 5}.options(),
		"a page without end":  listOptions{token: after}.options(),
		"a page, at 0":        listOptions{rv: "0", token: after, limit: 5}.options(),
		"exact":               listOptions{rv: rv, match: exactly}.options(),
		"exact, with a limit": listOptions{rv: rv, match: exactly, limit: 5}.options(),
		"with a limit":        listOptions{rv: rv, limit: 5}.options(),
	}
}

// TestExactWaitsAtTheGate: a read of exactly one revision that the cache has not reached
// does not wait inside of the cache, where it would not heed its deadline.
func TestExactWaitsAtTheGate(t *testing.T) {
	for name := range exactReads(1) {
		t.Run(name, func(t *testing.T) {
			behind(t, setup{}, func(t *testing.T, r *rig, seen *spy) {
				r.cached.Hold()
				target := r.put("z")
				seen.forget()
				const patience = 100 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				came := time.Now()
				_, err := list(ctx, r.store, exactReads(target)[name])
				if !errors.Is(err, ErrNotFresh) || time.Since(came) != patience {
					t.Errorf("got %v after %v, want %v after %v", err, time.Since(came), ErrNotFresh, patience)
				}
				if asked := seen.asked(); len(asked) != 0 {
					t.Errorf("the cache was asked %q", asked)
				}
				came = time.Now()
				if _, err := list(t.Context(), r.store, exactReads(target + 1)[name]); !storage.IsTooLargeResourceVersion(err) || time.Since(came) != 0 {
					t.Errorf("of a revision to come: %v after %v", err, time.Since(came))
				}
				r.cached.Release()
				pods, err := list(t.Context(), r.store, exactReads(target)[name])
				if err != nil || !slices.Contains(names(pods), "z") || pods.ResourceVersion != formatRevision(target) {
					t.Errorf("got %q at %s, %v; want z at %d", names(pods), pods.ResourceVersion, err, target)
				}
			})
		})
	}
}

// TestExactIsWhole: a read of exactly a revision of which the cache has a part is answered
// with all of it.
func TestExactIsWhole(t *testing.T) {
	for name := range exactReads(1) {
		for tap, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
			t.Run(name+"/"+tap, func(t *testing.T) {
				bubble(t, s, func(t *testing.T, r *rig) {
					r.put("a", "b")
					if _, err := list(t.Context(), r.store, everything("")); err != nil {
						t.Fatal(err)
					}
					r.cached.Hold()
					target := r.put("x", "y", "z")
					for range 3 {
						r.cached.Step(1)
						settled()
						answered := make(chan error, 1)
						go func() {
							pods, err := list(t.Context(), r.store, exactReads(target)[name])
							got := names(pods)
							if n := len(got); err == nil && (n < 3 || !slices.Equal(got[n-3:], []string{"x", "y", "z"})) {
								t.Errorf("got %q at %d", got, target)
							}
							answered <- err
						}()
						settled()
						defer func() {
							if err := <-answered; err != nil {
								t.Error(err)
							}
						}()
					}
					r.cached.Release()
				})
			})
		}
	}
}

// TestPagesUnderDirect: a page goes on as the one before it where that was a quorum list,
// without a wait for the cache.
func TestPagesUnderDirect(t *testing.T) {
	for name, cfg := range map[string]Config{
		"policy":   {OnUnverified: UnverifiedDirect},
		"strategy": {Strategy: StrategyDirect},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: cfg}, func(t *testing.T, r *rig) {
				r.put("a")
				settled()
				r.cached.Hold()
				target := r.txn(memstorage.Put("/pods/ns/b", pod("ns", "b")))
				came := time.Now()
				pods, err := list(t.Context(), r.store, exactReads(target)["a page"])
				if err != nil || !slices.Equal(names(pods), []string{"b"}) || time.Since(came) != 0 {
					t.Errorf("got %q, %v after %v", names(pods), err, time.Since(came))
				}
			})
		})
	}
}
