package decorator

import (
	"context"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"maps"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// passing is a cache which a proof has brought from after to upTo, past an object that was
// created and deleted in between. What the watch brings is held back.
type passing struct {
	*rig
	after, created, deleted, upTo uint64
}

func (r *rig) passing() *passing {
	r.t.Helper()
	p := &passing{rig: r}
	p.after = r.put("a")
	settled()
	r.cached.Hold()
	r.memory.Bump()
	p.created = r.put("x")
	r.memory.Bump()
	p.deleted = r.txn(memstorage.Delete("/pods/ns/x"))
	p.upTo = r.memory.Bump()
	wantNames(r.t, r.lists(), "a")
	if got := r.applied(); got != p.upTo {
		r.t.Fatalf("the cache is at %d, want %d", got, p.upTo)
	}
	return p
}

// exactlyAt are the ways to list at exactly one revision.
func exactlyAt(revision uint64) map[string]storage.ListOptions {
	exact, limited := everything(formatRevision(revision)), everything(formatRevision(revision))
	exact.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	limited.Predicate.Limit = 10
	token := everything("")
	token.Predicate.Limit = 10
	token.Predicate.Continue = must(storage.EncodeContinue("/pods/ns/0", "/pods/", int64(revision)))
	return map[string]storage.ListOptions{"exact": exact, "with a limit": limited, "with a token": token}
}

// wantExact: every exact LIST of s shows what there was. past are the revisions that are to be
// read from the storage.
func (r *rig) wantExact(s *Store, from, to uint64, past func(uint64) bool) {
	r.t.Helper()
	for n := from; n <= to; n++ {
		for how, opts := range exactlyAt(n) {
			want, err := list(r.t.Context(), r.writer, opts)
			if err != nil {
				r.t.Fatal(err)
			}
			before := r.cached.Calls().List
			got, err := list(r.t.Context(), s, opts)
			if err != nil || got.ResourceVersion != want.ResourceVersion || !maps.Equal(stateOf(got), stateOf(want)) {
				r.t.Errorf("a LIST at %d %s: got %v at %q, %v, want %v", n, how, names(got), got.ResourceVersion, err, names(want))
			}
			if asked := r.cached.Calls().List - before; (asked > 0) != past(n) {
				r.t.Errorf("a LIST at %d %s asked the storage %d times", n, how, asked)
			}
		}
	}
}

// watchFrom opens a watch and returns it with the failure that it begins with.
func (r *rig) watchFrom(s *Store, opts storage.ListOptions) (watch.Interface, error) {
	r.t.Helper()
	w, err := s.Watch(r.t.Context(), "/pods/", opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
	settled()
	select {
	case event := <-w.ResultChan():
		return w, failureOf(event)
	default:
		return w, nil
	}
}

// wantWatches: a watch is refused with 410 from the revisions of past, and from no other.
func (r *rig) wantWatches(s *Store, from, to uint64, past func(uint64) bool) {
	r.t.Helper()
	for n := from; n <= to; n++ {
		for how, initial := range map[string]*bool{"": nil, "without initial events": new(false)} {
			opts := listOptions{rv: formatRevision(n), initial: initial}.options()
			opts.Predicate.AllowWatchBookmarks = true
			if _, err := r.watchFrom(s, opts); apierrors.IsResourceExpired(err) != past(n) {
				r.t.Errorf("a watch from %d %s: %v", n, how, err)
			}
		}
		// It begins with what there is at n or later.
		opts := listOptions{rv: formatRevision(n), initial: new(true)}.options()
		if _, err := r.watchFrom(s, opts); err != nil {
			r.t.Errorf("a watch from %d with initial events: %v", n, err)
		}
	}
}

// TestPassedOver: what came and went within a proof is in exact LISTs all the same, and no
// watch begins in between; the watch bringing the events changes that no more than their
// being on their way, but for revisions of which it shows that there was nothing.
func TestPassedOver(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			provable(t, Config{}, func(t *testing.T, r *rig) {
				p := r.passing()
				if err := r.backend.SetMode(mode); err != nil {
					t.Fatal(err)
				}
				between := func(n uint64) bool { return p.after < n && n < p.upTo }
				r.wantExact(r.store, p.after, p.upTo, between)
				r.wantWatches(r.store, p.after, p.upTo, between)

				r.cached.Release()
				settled()
				r.wantExact(r.store, p.after, p.upTo, between)
				r.wantWatches(r.store, p.after, p.upTo, between)

				b := r.put("b")
				settled()
				there := func(n uint64) bool { return p.created <= n && n < p.deleted }
				r.wantExact(r.store, p.after, b, there)
				r.wantWatches(r.store, p.after, b, there)
			})
		})
	}
}

// TestPassedOverNothing: once the watch has shown that nothing came and went, revisions
// between proofs are like any other.
func TestPassedOverNothing(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		after := r.put("a")
		settled()
		for range 3 {
			r.memory.Bump()
			r.memory.Bump()
			wantNames(t, r.lists(), "a")
		}
		upTo := r.memory.Revision()
		r.wantWatches(r.store, after, upTo, func(n uint64) bool { return (n-after)%2 == 1 })
		r.put("b")
		settled()
		never := func(uint64) bool { return false }
		r.wantExact(r.store, after, upTo, never)
		r.wantWatches(r.store, after, upTo, never)
	})
}

// TestPassedOverByTheWatchBefore: a watch that was opened after the proof does not show what
// was before it.
func TestPassedOverByTheWatchBefore(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		p := r.passing()
		r.cached.CutAfter(0)
		r.cached.Release()
		time.Sleep(time.Minute)
		r.memory.Bump()
		wantNames(t, r.lists(), "a") // a proof of its own
		r.put("b")
		settled()
		between := func(n uint64) bool { return p.after < n && n < p.upTo }
		r.wantExact(r.store, p.after, p.upTo, between)
		r.wantWatches(r.store, p.after, p.upTo, between)
	})
}

// TestEachProofIsWhole: from the revision of a LIST that a proof has brought about a watch can
// begin, whatever is proven before it does.
func TestEachProofIsWhole(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		var listed []uint64
		for range 100 {
			r.memory.Bump()
			r.memory.Bump()
			wantNames(t, r.lists(), "a")
			listed = append(listed, r.applied())
		}
		for _, n := range listed {
			if _, err := r.watchFrom(r.store, everything(formatRevision(n))); err != nil {
				t.Errorf("a watch from %d: %v", n, err)
			}
		}
	})
}

// TestPassedOverAfterTheStrategy: what a proof has passed over stays so when caches are
// brought to a floor in another way.
func TestPassedOverAfterTheStrategy(t *testing.T) {
	only := sane
	only.ProgressAnswered = VerdictNo
	provable(t, Config{Strategy: StrategyAuto}, func(t *testing.T, r *rig) {
		r.backend.SetProperties(only)
		p := r.passing()
		r.backend.SetProperties(sane)
		r.wantStrategy(StrategyRequest)
		r.cached.DropProgress(false)
		between := func(n uint64) bool { return p.after < n && n < p.upTo }
		r.wantExact(r.store, p.after, p.upTo, between)
		r.wantWatches(r.store, p.after, p.upTo, between)
	})
}

// TestPassedOverWithoutRaw: what cannot be read from the storage is refused, and the error
// says what is missing.
func TestPassedOverWithoutRaw(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		p := r.passing()
		s, err := r.backend.Wrap(r.inner, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList, Feed: r.feed})
		if err != nil {
			t.Fatal(err)
		}
		for n := p.after; n <= p.upTo; n++ {
			for how, opts := range exactlyAt(n) {
				_, err := list(t.Context(), s, opts)
				if between := p.after < n && n < p.upTo; between != apierrors.IsResourceExpired(err) || between && !strings.Contains(err.Error(), "Resource.Raw") {
					t.Errorf("a LIST at %d %s: %v", n, how, err)
				}
			}
		}
	})
}

// TestPassedOverInFlight: a proof passes over the revision of a LIST that waits in the cache.
func TestPassedOverInFlight(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		created := r.put("x")
		r.txn(memstorage.Delete("/pods/ns/x"))
		if err := r.backend.SetMode(ModeOff); err != nil {
			t.Fatal(err)
		}
		raw := r.store.resource.Raw
		r.store.resource.Raw = &spy{Interface: raw, onList: func(_ context.Context, _ storage.ListOptions, list runtime.Object, pass func() error) error {
			if left := names(list.(*example.PodList)); len(left) > 0 { // a storage adds to what there is
				t.Errorf("the storage is asked with %v in the list", left)
			}
			return pass()
		}}
		answered := make(chan []string, 3)
		for _, opts := range exactlyAt(created) {
			go func() {
				pods, err := list(t.Context(), r.store, opts)
				if err != nil {
					t.Error(err)
				}
				answered <- names(pods)
			}()
		}
		wantNoAnswer(t, answered)
		if _, err := r.feed.proof.prove(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			wantNames(t, answered, "a", "x")
		}
	})
}

// TestPassedOverAhead: a watch that was opened at a revision which the cache had not reached
// ends when a proof passes over that, and is refused when it comes again. Others go on.
func TestPassedOverAhead(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			provable(t, Config{}, func(t *testing.T, r *rig) {
				if err := r.backend.SetMode(mode); err != nil {
					t.Fatal(err)
				}
				after := r.put("a")
				settled()
				r.cached.Hold()
				created := r.put("x")
				opened := map[string]struct {
					opts storage.ListOptions
					ends bool
				}{
					"from before":         {everything(formatRevision(after)), false},
					"from the creation":   {everything(formatRevision(created)), true},
					"from now":            {listOptions{initial: new(false)}.options(), mode == ModeVerify},
					"without its initial": {listOptions{rv: formatRevision(created), initial: new(false)}.options(), true},
				}
				watches := map[string]watch.Interface{}
				for name, o := range opened {
					w, err := r.watchFrom(r.store, o.opts)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					watches[name] = w
				}
				deleted := r.txn(memstorage.Delete("/pods/ns/x"))
				late, err := r.watchFrom(r.store, everything(formatRevision(deleted)))
				if err != nil {
					t.Fatal(err)
				}
				watches["from the deletion"] = late
				if _, err := r.feed.proof.prove(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.cached.Release()
				settled()
				r.put("b")
				settled()
				for name, w := range watches {
					got := "nothing"
					select {
					case event, ok := <-w.ResultChan():
						if got = "closed"; ok {
							got = short(event)
						}
					default:
					}
					want := "ADDED b@" + formatRevision(r.memory.Revision())
					if opened[name].ends {
						want = "closed"
					}
					if got != want {
						t.Errorf("a watch %s: got %s, want %s", name, got, want)
					}
				}
				if _, err := r.watchFrom(r.store, everything(formatRevision(created))); !apierrors.IsResourceExpired(err) {
					t.Errorf("a watch from the creation: %v", err)
				}
			})
		})
	}
}

// TestReachedBeforeTheProof: a watch whose revision the cache has reached by its events since
// goes on, whatever is proven then.
func TestReachedBeforeTheProof(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		created := r.put("x")
		w, err := r.watchFrom(r.store, everything(formatRevision(created)))
		if err != nil {
			t.Fatal(err)
		}
		r.cached.Release()
		settled()
		r.memory.Bump()
		r.memory.Bump()
		wantNames(t, r.lists(), "a", "x")
		deleted := r.txn(memstorage.Delete("/pods/ns/x"))
		want(t, w, "DELETED x@"+formatRevision(deleted))
	})
}

// TestGaps: each proof leaves a gap; those that the watch filled go, or shrink to what came
// late; and of too many the older half becomes one.
func TestGaps(t *testing.T) {
	over := func(g *gaps) string {
		f := Feed{}
		f.gaps.all = g.all
		f.gaps.newest.Store(g.newest.Load())
		var marks strings.Builder
		for n := range uint64(22) {
			mark := "."
			if f.passedOver(n) {
				mark = "x"
			}
			marks.WriteString(mark)
		}
		return marks.String()
	}
	check := func(g *gaps, want string) {
		t.Helper()
		if got := over(g); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	g := &gaps{}
	check(g, "......................")
	g.add(2, 6)
	check(g, "...xxx................")
	g.add(6, 7)
	g.add(7, 10)
	check(g, "...xxx..xx............")
	g.add(12, 20)
	check(g, "...xxx..xx...xxxxxxx..")
	g.late(14)
	g.late(15)
	g.late(17)
	g.settle(12)
	check(g, "...xxx..xx....xxx.....")
	g.late(6) // the last of its gap
	g.settle(2)
	check(g, "..............xxx.....")

	g = &gaps{}
	for n := range uint64(maxGaps) {
		g.add(2*n, 2*n+2)
	}
	check(g, ".x.x.x.x.x.x.x.x.x.x.x")
	g.late(4)
	g.add(2*maxGaps, 2*maxGaps+2)
	check(g, ".xxxxxxxxxxxxxxxxxxxxx")
	if merged := uint64(maxGaps); !g.overLocked(merged-1) || g.overLocked(merged) || !g.overLocked(merged+1) {
		t.Errorf("what was merged does not end at %d", merged)
	}
	g.settle(0)
	check(g, ".xxxxxxxxxxxxxxxxxxxxx")
	if len(g.all) != 1 {
		t.Errorf("%d gaps are left, want the one of what was merged", len(g.all))
	}
}

// TestPassedOverWhileItOpens: a proof passes over the revision of a watch while the cache
// opens it.
func TestPassedOverWhileItOpens(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		created := r.put("x")
		r.txn(memstorage.Delete("/pods/ns/x"))
		opening := &slowWatch{Interface: r.store.inner, opened: func() {
			if _, err := r.feed.proof.prove(t.Context()); err != nil {
				t.Error(err)
			}
		}}
		r.store.inner = opening
		if _, err := r.watchFrom(r.store, everything(formatRevision(created))); !apierrors.IsResourceExpired(err) {
			t.Errorf("got %v", err)
		}
	})
}

// slowWatch calls opened while a watch is opened.
type slowWatch struct {
	storage.Interface
	opened func()
}

func (s *slowWatch) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, opts)
	s.opened()
	return w, err
}

// TestEarlyWatchIsForgotten: a watch that was stopped is not kept for proofs that may never come.
func TestEarlyWatchIsForgotten(t *testing.T) {
	provable(t, Config{}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		w, err := r.watchFrom(r.store, everything(formatRevision(r.put("x"))))
		if err != nil || len(r.feed.gaps.early) != 1 {
			t.Fatalf("%v, %d are watched", err, len(r.feed.gaps.early))
		}
		w.Stop()
		if left := len(r.feed.gaps.early); left != 0 {
			t.Errorf("%d are kept", left)
		}
	})
}
