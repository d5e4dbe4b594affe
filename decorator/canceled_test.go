package decorator

import (
	"context"
	"testing"
	"time"
)

// TestCanceledListSlowsNoWrite: a LIST that its caller gave up while the floor was being
// read is no reason to write without what the cache suggests.
func TestCanceledListSlowsNoWrite(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a")
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		r.blockFloors()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := list(ctx, r.store, everything("")); err == nil {
			t.Fatal("a floor was read")
		}
		settled()
		suggested := pod("ns", "a")
		if to, cached, err := r.store.writer(suggested); err != nil || to != r.store.inner || cached != suggested {
			t.Errorf("a write goes to %T with %v, %v; want the cache's with its suggestion", to, cached, err)
		}
		// One that was not answered in time is.
		if _, err := list(t.Context(), r.store, everything("")); err == nil {
			t.Fatal("a floor was read")
		}
		settled()
		if _, cached, err := r.store.writer(suggested); err != nil || cached != nil {
			t.Errorf("a write begins with %v, %v, and the backend may be another", cached, err)
		}
	})
}
