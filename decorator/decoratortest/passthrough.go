package decoratortest

import (
	"k8s.io/apiserver/pkg/storage"
)

// checkPassThrough writes through the Store and reads what it wrote.
func checkPassThrough(r *rig) {
	ctx, s := r.t.Context(), r.Store()
	if s.Versioner() == nil {
		r.t.Fatal("Versioner() is nil")
	}
	w := write{namespace: "through", name: "through-object"}
	w.key = r.Key(w.namespace, w.name)
	obj := r.object(w.namespace, w.name)
	out := empty(obj)
	if err := s.Create(ctx, w.key, obj, out, 0); err != nil {
		r.t.Fatalf("Create: %v", err)
	}
	w.revision = r.objectRevision(out)
	r.mustShowAll(w, "after Create through the Store: ")
	if err := s.Create(ctx, w.key, r.object(w.namespace, w.name), nil, 0); !storage.IsExist(err) {
		r.t.Errorf("Create of what exists: %v", err)
	}

	stored := empty(obj)
	if err := r.Writer().Get(ctx, w.key, storage.GetOptions{}, stored); err != nil || r.objectRevision(stored) != w.revision {
		r.t.Errorf("Create answered revision %d, and Writer().Get %d, %v", w.revision, r.objectRevision(stored), err)
	}
	updated, err := r.update(s, w)
	if err != nil || updated.revision <= w.revision {
		r.t.Fatalf("GuaranteedUpdate: revision %d after %d, %v", updated.revision, w.revision, err)
	}
	r.mustShowAll(updated, "after GuaranteedUpdate through the Store: ")
	// It is the backend's own word, which on some is old: what is read is no key of theirs.
	// Caches ask their Feed.
	if newest, err := s.GetCurrentResourceVersion(ctx); err != nil || newest == 0 {
		r.t.Errorf("GetCurrentResourceVersion: %d, %v", newest, err)
	}

	removed, err := r.remove(s, updated)
	if err != nil {
		r.t.Fatalf("Delete: %v", err)
	}
	r.mustShowAll(removed, "after Delete through the Store: ")
	if err := s.Get(ctx, w.key, storage.GetOptions{}, empty(obj)); !storage.IsNotFound(err) {
		r.t.Errorf("Get of what was deleted: %v", err)
	}
	if _, err := r.remove(s, updated); !storage.IsNotFound(err) {
		r.t.Errorf("Delete of what was deleted: %v", err)
	}
	if err := s.ReadinessCheck(); err != nil {
		r.t.Errorf("ReadinessCheck: %v", err)
	}
}

// mustShowAll reads in the ways that need no marker.
func (r *rig) mustShowAll(w write, when string) {
	r.t.Helper()
	for _, name := range []string{"LIST", "LIST at 0", "GET", "GET at 0", "LIST of one key"} {
		r.mustShow(named(name), w, when)
	}
}
