package decorator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// rewind makes a rig whose cache has pods a and b at 2 and 3, and takes the backend
// back to 2.
func rewind(t *testing.T, cfg Config, f func(*testing.T, *rig)) {
	t.Helper()
	bubble(t, setup{cfg: cfg}, func(t *testing.T, r *rig) {
		r.put("a")
		r.put("b")
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		r.cached.Hold() // the cache does not notice by itself
		if err := r.memory.Restore(2); err != nil {
			t.Fatal(err)
		}
		f(t, r)
	})
}

// TestRewindIsSticky: once the backend is known to have gone back no read is answered
// from the cache, also when the revision has passed what was seen.
func TestRewindIsSticky(t *testing.T) {
	for _, policy := range []OnUnverified{UnverifiedFail, UnverifiedQuorum, UnverifiedStale} {
		t.Run(string(policy), func(t *testing.T) {
			rewind(t, Config{OnUnverified: policy}, func(t *testing.T, r *rig) {
				for round := range 2 {
					for verb, read := range reads("0") {
						err := read(t.Context(), r.store)
						rewound, ok := errors.AsType[*RewoundError](err)
						if !ok || rewound.Seen != 3 || rewound.Read != 2 || rewound.Evidence != freshness.EvidenceRevision {
							t.Errorf("round %d: %s: got %v, want a rewind from 3 to 2", round, verb, err)
						}
					}
					r.put("c")
					r.put("c")
					r.put("c")
				}
				if n := count(t, r.backend.metrics.Rewinds.WithLabelValues("default", freshness.EvidenceRevision)); n != 1 {
					t.Errorf("%v rewinds were counted, want 1", n)
				}
			})
		})
	}
}

// TestRewindDirect: the raw storage still has the truth, and Direct answers with it.
func TestRewindDirect(t *testing.T) {
	rewind(t, Config{OnUnverified: UnverifiedDirect}, func(t *testing.T, r *rig) {
		r.failWhenRewound(t)
		for _, rv := range []string{"", "0"} {
			pods, err := list(t.Context(), r.store, everything(rv))
			if err != nil || !maps.Equal(stateOf(pods), r.truth()) {
				t.Errorf("list at %q: got %q, %v; want %v", rv, names(pods), err, r.truth())
			}
		}
		if version, err := readA(t.Context(), "get", r.store, "0"); err != nil || version != "2" {
			t.Errorf("get: got a@%s, %v", version, err)
		}
		err := reads("0")["watch"](t.Context(), r.store)
		checkStatus(t, err, 429)
		checkChain(t, err, &RewoundError{}, nil)
	})
}

// failWhenRewound makes sure that the rewind was seen.
func (r *rig) failWhenRewound(t *testing.T) {
	t.Helper()
	if _, err := list(t.Context(), r.store, everything("")); err != nil {
		t.Fatalf("the read that sees the rewind: %v", err)
	}
	if r.backend.floors.Rewound() == nil {
		t.Fatal("the rewind was not seen")
	}
}

// TestStockMissesRewind is why the tests above exist: upstream's cache goes on
// answering from a history that never was.
func TestStockMissesRewind(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a")
		raw, stock := r.stock()
		r.put("b")
		settled()
		raw.Hold()
		if err := r.memory.Restore(2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		pods, err := list(t.Context(), stock, everything(""))
		if err != nil || !slices.Equal(names(pods), []string{"a", "b"}) {
			t.Errorf("upstream's cache answers %q, %v: it has noticed", names(pods), err)
		}
	})
}

// TestRewindRefusesOldRevisions: a revision that the cache has had is no reason to
// answer from it: what it held then may never have been.
func TestRewindRefusesOldRevisions(t *testing.T) {
	rewind(t, Config{}, func(t *testing.T, r *rig) {
		if _, err := list(t.Context(), r.store, everything("")); err == nil {
			t.Fatal("the rewind was not seen")
		}
		reads := reads("3")
		reads["watch without initial events"] = func(ctx context.Context, s storage.Interface) error {
			return openAndStop(ctx, s, new(false))
		}
		for verb, read := range reads {
			if _, rewound := errors.AsType[*RewoundError](read(t.Context(), r.store)); !rewound {
				t.Errorf("%s: answered from the cache of a history that never was", verb)
			}
		}
	})
}
