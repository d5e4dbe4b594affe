package decoratortest

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// checkHolds looks whether HoldWatch holds, without which the other tests would pass
// over anything: a watch of the Store hears of a write only after ReleaseWatch.
func checkHolds(r *rig) {
	before := r.create("holds", "holds-object")
	seen := r.mustShow(named("LIST"), before, "").revision
	r.HoldWatch()
	w, err := r.update(r.Writer(), before)
	if err != nil {
		r.t.Fatalf("through Writer: %v", err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	heard := make(chan error, 1)
	go func() {
		heard <- r.watch(ctx, watchOptions(fmt.Sprint(seen), nil), func(_ watch.Event, name string, revision uint64) bool {
			return name == w.name && revision >= w.revision
		})
	}()
	select {
	case err := <-heard:
		r.t.Fatalf("a watch of the Store ended (%v) or heard of a write after HoldWatch: the Harness holds something else than the watch of the Store's cache", err)
	case <-time.After(brief):
	}
	r.ReleaseWatch()
	if err := <-heard; err != nil {
		r.t.Fatalf("a watch of the Store did not hear of a write after ReleaseWatch: %v", err)
	}
}
