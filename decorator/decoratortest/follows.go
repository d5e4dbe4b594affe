package decoratortest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

// checkFollows follows a watch beside a writer. It brings each write once, in order, and
// no bookmark promises what has not come.
func checkFollows(r *rig) {
	const tries = 3 // a watch may end, as that of a slow reader
	for i := range tries {
		err := r.followWrites(fmt.Sprintf("follows-%d", i))
		if err == nil || !inconclusive(err) {
			if err != nil {
				r.t.Errorf("WATCH from a revision: %v", err)
			}
			return
		}
	}
	r.t.Errorf("none of %d watches from a revision lasted for as long as it was read", tries)
}

func (r *rig) followWrites(name string) error {
	const writes = 50
	object := r.create("follows", name)
	seen := r.mustShow(named("LIST"), object, "").revision
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	w, err := r.Store().Watch(ctx, r.prefix(), watchOptions(fmt.Sprint(seen), nil))
	if err != nil {
		return err
	}
	marker := name + "-marker"
	var came []uint64
	var above string // a bookmark that ran ahead
	ended := make(chan error, 1)
	go func() {
		bookmark := uint64(0)
		ended <- r.follow(ctx, w, func(e watch.Event, of string, revision uint64) bool {
			if e.Type == watch.Bookmark {
				bookmark = max(bookmark, revision)
				return false
			}
			if revision <= bookmark && above == "" {
				above = fmt.Sprintf("%s %s at %d after a bookmark at %d", e.Type, of, revision, bookmark)
			}
			if of == name {
				came = append(came, revision)
			}
			return of == marker
		})
	}()
	var wrote []uint64
	for range writes {
		if object, err = r.update(r.Writer(), object); err != nil {
			r.t.Fatalf("through Writer: %v", err)
		}
		wrote = append(wrote, object.revision)
	}
	r.create("follows", marker)
	if err := <-ended; err != nil {
		return err
	}
	if !slices.Equal(came, wrote) {
		r.broken("a watch brings each write after the revision that it begins at, once and in order",
			fmt.Sprintf("an object written at %d came at %d", wrote, came),
			"the Feed, or what the Harness has between it and the backend, lost or repeated events")
	}
	if above != "" {
		r.broken("a bookmark on a watch is at or above all that came before it, and below all that comes after", above,
			"a bookmark of the backend was passed on before the events below it")
	}
	return nil
}
