package decorator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// crowdRig has LISTs that have come through the gate together, one after the other.
type crowdRig struct {
	*rig
	spy   *spy
	reads []*read
}

func crowdOf(t *testing.T, n int, s setup, f func(*testing.T, *crowdRig)) {
	t.Helper()
	c := &crowdRig{spy: &spy{}}
	s.inner = func(inner storage.Interface) storage.Interface {
		c.spy.Interface = inner
		return c.spy
	}
	bubble(t, s, func(t *testing.T, r *rig) {
		c.rig = r
		r.put("a", "b")
		r.settle()
		c.spy.forget()
		for range n {
			c.arrive()
		}
		f(t, c)
	})
}

func (c *crowdRig) arrive() {
	read := c.store.begin(c.t.Context(), verbList, route{kind: routeFloor})
	read.number = c.store.crowd.enter()
	c.reads = append(c.reads, read)
}

// next lets the read that arrived first have its answer.
func (c *crowdRig) next(key string, opts storage.ListOptions, floor uint64) (*example.PodList, error) {
	read := c.reads[0]
	c.reads = c.reads[1:]
	defer c.store.crowd.leave()
	pods := &example.PodList{}
	_, err := read.list(key, &opts, pods, floor)
	return pods, err
}

// lists is how many have reached the cache since the last time.
func (c *crowdRig) lists() int {
	n := len(c.spy.asked())
	c.spy.forget()
	return n
}

// Of a crowd that asks for the same one asks the cache; each has a list of its own.
func TestCrowdShares(t *testing.T) {
	crowdOf(t, 2*crowdFrom, setup{}, func(t *testing.T, c *crowdRig) {
		opts, all := everything(""), []*example.PodList{}
		opts.Predicate.Limit = 1 // there is a token, and a count
		for range 2 * crowdFrom {
			all = append(all, must(c.next("/pods/", opts, c.applied())))
		}
		if n := c.lists(); n != crowdFrom {
			t.Errorf("%d lists reached the cache, want one, and %d when there was no crowd any more", n, crowdFrom-1)
		}
		for i, pods := range all {
			if diff := cmp.Diff(all[0], pods); diff != "" || !slices.Equal(names(pods), []string{"a"}) || pods.Continue == "" || pods.RemainingItemCount == nil {
				t.Errorf("answer %d differs from that of the cache: %s", i, diff)
			}
		}
		for i, pods := range all {
			pods.Items[0].Name, pods.ResourceVersion = "mine", ""
			if i+1 < len(all) && all[i+1].Items[0].Name != "a" {
				t.Errorf("callers %d and %d have a list in common", i, i+1)
			}
		}
		if c.store.crowd.answer.Load() != nil {
			t.Error("an answer is kept when all have gone")
		}
	})
}

// What another was answered is not for every read.
func TestCrowdTellsReadsApart(t *testing.T) {
	selected := everything("")
	selected.Predicate = selecting("", "metadata.name=b")
	for name, second := range map[string]func(t *testing.T, c *crowdRig) (*example.PodList, error){
		"it came when the cache had been asked": func(t *testing.T, c *crowdRig) (*example.PodList, error) {
			c.arrive()
			c.reads = c.reads[len(c.reads)-1:]
			return c.next("/pods/", everything(""), c.applied())
		},
		"its floor is higher": func(t *testing.T, c *crowdRig) (*example.PodList, error) {
			c.put("b")
			c.settle()
			return c.next("/pods/", everything(""), c.applied())
		},
		"it asks for others": func(t *testing.T, c *crowdRig) (*example.PodList, error) {
			return c.next("/pods/", selected, c.applied())
		},
		"it is one of few": func(t *testing.T, c *crowdRig) (*example.PodList, error) {
			for range crowdFrom {
				c.store.crowd.leave()
			}
			return c.next("/pods/", everything(""), c.applied())
		},
	} {
		t.Run(name, func(t *testing.T) {
			crowdOf(t, 2*crowdFrom-1, setup{}, func(t *testing.T, c *crowdRig) {
				if _, err := c.next("/pods/", everything(""), c.applied()); err != nil {
					t.Fatal(err)
				}
				if _, err := second(t, c); err != nil {
					t.Fatal(err)
				}
				if n := c.lists(); n != 2 {
					t.Errorf("%d lists reached the cache, want 2", n)
				}
			})
		})
	}
}

// Of a crowd that asks for many things no more than one list is copied.
func TestCrowdKeepsOneAnswer(t *testing.T) {
	crowdOf(t, 3*crowdFrom, setup{}, func(t *testing.T, c *crowdRig) {
		for _, key := range []string{"/pods/", "/pods/ns/", "/pods/", "/pods/ns/"} {
			if _, err := c.next(key, everything(""), c.applied()); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.lists(); n != 3 {
			t.Errorf("%d lists reached the cache, want 3", n)
		}
	})
}

// steady has waves of LISTs, of which the next has always come before the one before has
// left, and answers how many of them reached the cache. Those before them leave when the
// first has come. kinds are the keys that the LISTs of a wave ask for, in turn.
func (c *crowdRig) steady(before, waves int, kinds ...string) int {
	c.t.Helper()
	c.spy.forget()
	arrive := func() {
		for range 2 * crowdFrom {
			c.arrive()
		}
	}
	arrive()
	for range before {
		c.store.crowd.leave()
	}
	for range waves {
		arrive()
		for i := range 2 * crowdFrom {
			if _, err := c.next(kinds[i%len(kinds)], everything(""), c.applied()); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return c.lists()
}

// A crowd that never ends shares as much as one that does: an answer that nobody can use
// any more, or that others pass over, is in nobody's way.
func TestCrowdThatNeverEnds(t *testing.T) {
	const waves, wave = 100, 2 * crowdFrom
	one := []string{"/pods/"}
	for name, test := range map[string]struct {
		kinds []string
		stays bool // half a crowd waits all the time
		most  int  // lists that reach the cache
	}{
		"of one kind":            {kinds: one, most: waves + 2},
		"beside some that wait":  {kinds: one, stays: true, most: waves + 2},
		"of two kinds":           {kinds: []string{"/pods/", "/pods/ns/"}, most: waves*(1+wave/2) + 2},
		"with others among them": {kinds: slices.Concat([]string{"/pods/ns/"}, slices.Repeat(one, wave-1)), most: 3*waves + 2},
	} {
		t.Run(name, func(t *testing.T) {
			crowdOf(t, 2*crowdFrom, setup{}, func(t *testing.T, c *crowdRig) {
				if _, err := c.next("/pods/ns/other/", everything(""), c.applied()); err != nil {
					t.Fatal(err)
				}
				before := len(c.reads)
				if test.stays {
					before = 0
				}
				c.reads = nil
				if n := c.steady(before, waves, test.kinds...); n > test.most {
					t.Errorf("%d of %d lists reached the cache, want at most %d", n, waves*wave, test.most)
				}
			})
		})
	}
}

// An answer goes with the last LIST that can have it, and not with the last of all.
func TestCrowdLetsGoOfAnswers(t *testing.T) {
	const first = 2 * crowdFrom
	crowdOf(t, first, setup{}, func(t *testing.T, c *crowdRig) {
		for left := 1; left <= first; left++ {
			if _, err := c.next("/pods/", everything(""), c.applied()); err != nil {
				t.Fatal(err)
			}
			c.arrive() // too late for the answer
			if held := c.store.crowd.answer.Load() != nil; held != (left < first) {
				t.Errorf("when %d of %d have left, an answer is kept: %v", left, first, held)
			}
		}
	})
}

// A failure is its caller's own, and the next one asks.
func TestCrowdSharesNoFailure(t *testing.T) {
	crowdOf(t, 2*crowdFrom, setup{}, func(t *testing.T, c *crowdRig) {
		failed := errors.New("not this one")
		c.spy.onList = func(context.Context, storage.ListOptions, runtime.Object, func() error) error { return failed }
		if _, err := c.next("/pods/", everything(""), c.applied()); !errors.Is(err, failed) {
			t.Errorf("answered %v, want %v", err, failed)
		}
		c.spy.onList = nil
		for range 2 {
			if _, err := c.next("/pods/", everything(""), c.applied()); err != nil {
				t.Error(err)
			}
		}
		if n := c.lists(); n != 2 {
			t.Errorf("%d lists reached the cache, want 2", n)
		}
	})
}

// Where callers may do as they like with what they get nothing is shared, and no list of a
// shard, which says so in its metadata.
func TestCrowdThatSharesNothing(t *testing.T) {
	sharded := everything("")
	sharded.Predicate.ShardSelector = sharding.Everything()
	for name, test := range map[string]struct {
		setup setup
		opts  storage.ListOptions
	}{
		"private items": {setup{apart: true}, everything("")},
		"a shard":       {setup{}, sharded},
	} {
		t.Run(name, func(t *testing.T) {
			crowdOf(t, 2*crowdFrom, test.setup, func(t *testing.T, c *crowdRig) {
				for range 2 {
					if _, err := c.next("/pods/", test.opts, c.applied()); err != nil {
						t.Fatal(err)
					}
				}
				if n := c.lists(); n != 2 {
					t.Errorf("%d lists reached the cache, want 2", n)
				}
			})
		})
	}
}

// TestCrowdUnderWrites: a thousand callers at once, while a writer writes: nobody is
// answered with less than had been acknowledged when it came.
func TestCrowdUnderWrites(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		for round := range 20 {
			written := r.put("a")
			var done sync.WaitGroup
			for i := range 50 {
				done.Go(func() {
					pods, err := list(t.Context(), r.store, everything([]string{"", "0"}[i%2]))
					if err != nil {
						t.Error(err)
						return
					}
					if got := must(r.writer.Versioner().ParseResourceVersion(pods.ResourceVersion)); got < written {
						t.Errorf("round %d: answered at %d after a write at %d", round, got, written)
					}
				})
			}
			done.Wait()
		}
		if r.store.crowd.answer.Load() != nil {
			t.Error("an answer is kept when all have gone")
		}
	})
}

// TestCrowdSharesNothingOfTheStorage: what a LIST at a revision that a proof has passed over gets
// from the raw storage may depend on who asks, as any quorum list.
func TestCrowdSharesNothingOfTheStorage(t *testing.T) {
	for _, alike := range []bool{false, true} {
		bubble(t, setup{cfg: Config{Strategy: StrategyRangeProof}, proves: true, alike: alike}, func(t *testing.T, r *rig) {
			p := r.passing()
			c := &crowdRig{rig: r}
			const n = crowdFrom + 4
			for range n {
				c.arrive()
			}
			before := r.cached.Calls().List
			for range n {
				if _, err := c.next("/pods/", exactlyAt(p.created)["exact"], p.created); err != nil {
					t.Error(err)
				}
			}
			if got := r.cached.Calls().List - before; (got == n) == alike {
				t.Errorf("%d lists of the storage for %d callers, and its answers alike: %v", got, n, alike)
			}
		})
	}
}
