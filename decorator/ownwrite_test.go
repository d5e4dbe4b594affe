package decorator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// create, update and remove write pod name of namespace ns, and return its revision.
func create(ctx context.Context, s storage.Interface, name string) (uint64, error) {
	p, out := pod("ns", name), &example.Pod{}
	err := s.Create(ctx, podKey(p), p, out, 0)
	return versionOf(out), err
}

func update(change func(*example.Pod)) func(context.Context, storage.Interface, string) (uint64, error) {
	return func(ctx context.Context, s storage.Interface, name string) (uint64, error) {
		out := &example.Pod{}
		err := s.GuaranteedUpdate(ctx, podKey(pod("ns", name)), out, true, nil,
			storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
				p := obj.DeepCopyObject().(*example.Pod)
				p.Namespace, p.Name = "ns", name
				change(p)
				return p, nil
			}), nil)
		return versionOf(out), err
	}
}

func remove(ctx context.Context, s storage.Interface, name string) (uint64, error) {
	out := &example.Pod{}
	err := s.Delete(ctx, podKey(pod("ns", name)), out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	return versionOf(out), err
}

func versionOf(p *example.Pod) uint64 {
	revision, _ := storage.APIObjectVersioner{}.ObjectResourceVersion(p)
	return revision
}

// TestOwnWriteShowsRewind: a write that is acknowledged below what was seen before it was
// sent shows that the history went back, at once: no read at its revision is answered from
// the history of before, of which the cache has had that number.
func TestOwnWriteShowsRewind(t *testing.T) {
	relabel := update(func(p *example.Pod) { p.Labels = map[string]string{"app": "new"} })
	for name, row := range map[string]struct {
		write func(context.Context, storage.Interface, string) (uint64, error)
		pod   string
		reads int64 // of the Source
	}{
		"create":            {create, "new", 0},
		"update":            {relabel, "a", 1},
		"update that makes": {relabel, "new", 1},
		"delete":            {remove, "a", 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				r.put("a")
				for _, lost := range []string{"b", "c", "d", "e"} {
					r.put(lost)
				}
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Fatal(err)
				}
				r.cached.Hold() // the cache does not notice by itself
				if err := r.memory.Restore(2); err != nil {
					t.Fatal(err)
				}
				before := r.floorReads()
				written, err := row.write(t.Context(), r.store, row.pod)
				if err != nil || written != 3 {
					t.Fatalf("written at %d, %v; want 3", written, err)
				}
				if n := r.floorReads() - before; n != row.reads {
					t.Errorf("%d reads of the source, want %d", n, row.reads)
				}
				rv := formatRevision(written)
				all := reads(rv)
				all["watch from N"] = func(ctx context.Context, s storage.Interface) error { return openAndStop(ctx, s, nil) }
				all["page"] = func(ctx context.Context, s storage.Interface) error {
					_, err := list(ctx, s, exactReads(written)["a page"])
					return err
				}
				for read, do := range all {
					err := do(t.Context(), r.store)
					if rewound, ok := errors.AsType[*RewoundError](err); !ok || rewound.Seen != 6 || rewound.Read != 3 {
						t.Errorf("%s at %s: got %v, want a rewind from 6 to 3", read, rv, err)
					}
				}
				// And once more it is no other rewind.
				if _, err := row.write(t.Context(), r.store, "again"); name != "delete" && err != nil {
					t.Error(err)
				}
				if n := count(t, r.backend.metrics.Rewinds.WithLabelValues("default", "revision")); n != 1 {
					t.Errorf("%v rewinds were counted", n)
				}
			})
		})
	}
}

// TestOwnWriteAtWhatWasSeen: a write makes a revision that there was not.
func TestOwnWriteAtWhatWasSeen(t *testing.T) {
	rewind(t, Config{}, func(t *testing.T, r *rig) {
		if written, err := create(t.Context(), r.store, "c"); err != nil || written != 3 {
			t.Fatalf("written at %d, %v; want 3", written, err)
		}
		for verb, read := range reads("3") {
			if _, rewound := errors.AsType[*RewoundError](read(t.Context(), r.store)); !rewound {
				t.Errorf("%s: answered from the history of before", verb)
			}
		}
	})
}

// TestOwnWriteIsNoRewind: what only looks like one.
func TestOwnWriteIsNoRewind(t *testing.T) {
	same := update(func(*example.Pod) {})
	for name, row := range map[string]struct {
		write func(context.Context, storage.Interface, string) (uint64, error)
		inner func(storage.Interface) storage.Interface
		reads int64
	}{
		"an update that changes nothing": {write: same},
		"a storage that answers a Delete with the object as it was": {
			write: remove, reads: 1,
			inner: func(s storage.Interface) storage.Interface { return oldDelete{s} },
		},
		"kine, which answers with the revision before where an object is created once more": {
			write: createNew, reads: 1,
			inner: func(s storage.Interface) storage.Interface { return staleCreate{s} },
		},
		"a write acknowledged after a later one": {
			write: create,
			inner: func(s storage.Interface) storage.Interface { return lateCreate{s} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{inner: row.inner}, func(t *testing.T, r *rig) {
				name := "a"
				r.put(name)
				r.put("b")
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Fatal(err)
				}
				if row.inner != nil && row.reads == 0 {
					name = "slow"
					go func() {
						time.Sleep(time.Second)
						if _, err := create(t.Context(), r.store, "quick"); err != nil {
							t.Error(err)
						}
					}()
				}
				before := r.floorReads()
				if _, err := row.write(t.Context(), r.store, name); err != nil {
					t.Fatal(err)
				}
				if n := r.floorReads() - before; n != row.reads {
					t.Errorf("%d reads of the source, want %d", n, row.reads)
				}
				if _, err := list(t.Context(), r.store, everything("")); err != nil || r.backend.floors.Rewound() != nil {
					t.Errorf("%v, rewound: %v", err, r.backend.floors.Rewound())
				}
			})
		})
	}
}

// oldDelete answers a Delete with the revision that the object had.
type oldDelete struct{ storage.Interface }

func (s oldDelete) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	if err := s.Interface.Get(ctx, key, storage.GetOptions{}, out); err != nil {
		return err
	}
	return s.Interface.Delete(ctx, key, &example.Pod{}, preconditions, validate, cached, opts)
}

// createNew creates another object than name.
func createNew(ctx context.Context, s storage.Interface, name string) (uint64, error) {
	return create(ctx, s, "new-"+name)
}

// staleCreate answers a Create with the revision before.
type staleCreate struct{ storage.Interface }

func (s staleCreate) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if err := s.Interface.Create(ctx, key, obj, out, ttl); err != nil {
		return err
	}
	return storage.APIObjectVersioner{}.UpdateObject(out, versionOf(out.(*example.Pod))-1)
}

// lateCreate tells of the creation of pod "slow" two seconds later.
type lateCreate struct{ storage.Interface }

func (s lateCreate) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	err := s.Interface.Create(ctx, key, obj, out, ttl)
	if obj.(*example.Pod).Name == "slow" {
		time.Sleep(2 * time.Second)
	}
	return err
}

// TestDirectListShowsRewind: nor is anything answered from the history of before once a
// quorum list has shown that it went back, where no read needs a floor.
func TestDirectListShowsRewind(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyDirect, Pulse: -1}}, func(t *testing.T, r *rig) {
		r.put("a")
		for _, lost := range []string{"b", "c", "d", "e"} {
			r.put(lost)
		}
		synctest.Wait() // the cache has all of them
		r.cached.Hold()
		if err := r.memory.Restore(2); err != nil {
			t.Fatal(err)
		}
		if got, err := list(t.Context(), r.store, everything("")); err != nil || len(got.Items) != 1 {
			t.Errorf("a quorum list has %d pods, %v; want the one that is left", len(got.Items), err)
		}
		for read, do := range reads("3") {
			if _, ok := errors.AsType[*RewoundError](do(t.Context(), r.store)); !ok {
				t.Errorf("%s at 3: got %v, want a rewind", read, do(t.Context(), r.store))
			}
		}
	})
}

// TestDirectListsReadNoFloor: a quorum list that shows nothing new, and one of an older
// revision, are no reason to look.
func TestDirectListsReadNoFloor(t *testing.T) {
	var raw spy
	s := setup{cfg: Config{Strategy: StrategyDirect}, raw: func(s storage.Interface) storage.Interface { raw.Interface = s; return &raw }}
	bubble(t, s, func(t *testing.T, r *rig) {
		r.put("a", "b")
		page := everything("")
		page.Predicate.Limit = 1
		first, err := list(t.Context(), r.store, page)
		if err != nil {
			t.Fatal(err)
		}
		r.put("c")
		settled()
		page.Predicate.Continue = first.Continue
		exact := exactlyAt(versionOf(&first.Items[0]))["exact"]
		before := r.floorReads()
		for name, opts := range map[string]storage.ListOptions{"newest": everything(""), "page": page, "exact": exact} {
			for range 2 {
				if err := r.store.listRaw(t.Context(), "/pods/", opts, newPodList()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		// What is seen while a list is under way says nothing of it.
		raw.onList = func(_ context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
			err := pass()
			r.store.epoch.Saw(r.put("d"))
			return err
		}
		if err := r.store.listRaw(t.Context(), "/pods/", everything(""), newPodList()); err != nil {
			t.Error(err)
		}
		if n := r.floorReads() - before; n != 0 {
			t.Errorf("%d floors were read", n)
		}
	})
}

// TestDirectListIsSeen: what a quorum list has shown there must be ever after.
func TestDirectListIsSeen(t *testing.T) {
	bubble(t, setup{cfg: Config{Strategy: StrategyDirect}}, func(t *testing.T, r *rig) {
		r.cached.Hold()
		at := r.put("a", "b")
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		if seen := r.store.epoch.Seen(); seen != at {
			t.Errorf("the history was seen at %d, want %d", seen, at)
		}
	})
}

// TestLooksAgainInDoubt: a floor that is to decide whether the history went back has to prove
// that it did not, where there is a witness.
func TestLooksAgainInDoubt(t *testing.T) {
	var doubted bool
	source := func(r *rig) freshness.Source {
		return freshness.SourceFunc(func(ctx context.Context) (uint64, error) {
			doubted = r.backend.floors.Doubted()
			return r.writer.GetCurrentResourceVersion(ctx)
		})
	}
	inner := func(s storage.Interface) storage.Interface { return oldDelete{s} }
	bubble(t, setup{source: source, inner: inner}, func(t *testing.T, r *rig) {
		r.put("a", "b")
		if _, err := list(t.Context(), r.store, everything("")); err != nil || doubted {
			t.Fatal(err, doubted)
		}
		if _, err := remove(t.Context(), r.store, "a"); err != nil || !doubted {
			t.Errorf("%v, in doubt: %t", err, doubted)
		}
	})
}
