package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
)

// worlds are how many simulated runs a property is tried on.
const worlds = 30

// TestRightRunsPass is the property that nothing is found where nothing is wrong.
func TestRightRunsPass(t *testing.T) {
	for seed := range uint64(worlds) {
		w := newWorld(seed)
		w.run(usual, 0)
		if seed%2 == 1 {
			w.restore(w.rng.Uint64N(w.now() + 1))
			w.run(usual, w.end()+20)
		}
		cfg := Config{SecondOpinion: []string{"/a/1", "/b/2"}}
		if err := w.play(t, cfg, seed%3 != 0).Err(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestWrongByPhase: what is wrong counts to the phase in which it began.
func TestWrongByPhase(t *testing.T) {
	r := New(Config{})
	c := r.Client("c")
	c.List("/", "").Answered(0)
	r.Phase("partition")
	c.List("/", "").Answered(0, Item{"/a", "never written", 7})
	r.Phase("healed")
	c.Watch("/", 0).Delivered(Event{Key: "/a", Value: "never written", Revision: 1})
	var wrong []int
	for _, p := range r.Check().Phases {
		wrong = append(wrong, p.Wrong)
	}
	if !slices.Equal(wrong, []int{0, 1, 1}) {
		t.Errorf("got %v by phase", wrong)
	}
}

// TestRunsThatProveNothing: each of these runs has nothing wrong in it, and does not pass.
func TestRunsThatProveNothing(t *testing.T) {
	right := func(r *Run) { r.Client("c").List("/", "").Answered(0) }
	for name, test := range map[string]struct {
		cfg Config
		do  func(r *Run)
		err string // "": it passes
	}{
		"right":   {Config{}, right, ""},
		"no read": {Config{}, func(*Run) {}, "there was no read"},
		"half of the reads answered": {Config{}, func(r *Run) {
			right(r)
			r.Client("c").List("/", "").Failed()
		}, ""},
		"fewer": {Config{}, func(r *Run) {
			right(r)
			r.Client("c").List("/", "").Failed()
			r.Client("c").List("/", "") // never ends
		}, `phase "": only 1 of 3`},
		"fewer in one phase": {Config{}, func(r *Run) {
			for range 9 {
				right(r)
			}
			r.Phase("partition")
			r.Client("c").List("/", "").Failed()
			r.Phase("healed")
			right(r)
			r.Phase("partition")
			r.Client("c").List("/", "").Failed()
		}, `phase "partition": only 0 of 2`},
		"a fault that happened": {Config{}, func(r *Run) {
			right(r)
			r.Planned("restart")
			r.Happened("restart")
		}, ""},
		"a fault without reads": {Config{}, func(r *Run) {
			right(r)
			r.Planned("restart")
			r.Phase("restart")
			r.Happened("restart")
		}, `no read began in phase "restart"`},
		"a fault that did not": {Config{}, func(r *Run) {
			right(r)
			r.Planned("restart")
			r.Planned("restart")
			r.Happened("restart")
			r.Happened("partition")
		}, `fault "restart" happened 1 times, and was planned 2 times`},
		"no second opinion": {Config{SecondOpinion: []string{"/a"}}, func(r *Run) {
			r.Client("c").List("/b/", "").Answered(0)
		}, "no operation on /a"},
		"porcupine did not decide": {Config{}, func(r *Run) {
			right(r)
			r.opinion(porcupine.Unknown, "/a", 2000, r.clients[0].ops[0])
		}, "porcupine did not decide on the 2000 operations on /a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(test.cfg)
			test.do(r)
			err := r.Check().Err()
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

// TestViolationsCanBeRead: who, what, and expected because of which other operation.
func TestViolationsCanBeRead(t *testing.T) {
	r := New(Config{})
	now := int64(0)
	r.now = func() int64 { now += 1e6; return now }
	w := r.Client("writer").Write(Create, Change{Key: "/a/1", Value: "x"})
	if err := r.Truth(Revision{7, []Change{{Key: "/a/1", Value: "x"}}}); err != nil {
		t.Fatal(err)
	}
	w.Acknowledged(7)
	r.Client("reader").List("/a/", "0").Answered(6)
	r.Client("reader").List("/a/", "").Answered(7)
	want := "below an acknowledged write (one of 1): " +
		`reader: LIST /a/ at "0" [3ms to 4ms], revision 6: expected at least revision 7, of writer: create of /a/1 [1ms to 2ms], revision 7` +
		"\nmissing object (one of 1): " +
		"reader: LIST /a/ [5ms to 6ms], revision 7: 1 of the keys are wrong: /a/1 is missing, written at 7"
	if got := r.Check().Err(); got == nil || got.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
}

// TestMayBeOld: what was asked for, or configured, to be old is no fault.
func TestMayBeOld(t *testing.T) {
	for _, zero := range []bool{false, true} {
		r := New(Config{ZeroMayBeOld: zero, Prefix: "/b/"})
		if err := r.Truth(Revision{7, []Change{{Key: "/a/1", Value: "x"}}}, Revision{8, nil}); err != nil {
			t.Fatal(err)
		}
		r.Client("c").List("/a/", "").Answered(7, Item{"/a/1", "x", 7})
		r.Client("c").List("/a/", "0").Answered(6)
		r.Client("c").List("/a/", "5").Answered(6)
		r.Client("c").ListExact("/a/", 6).Answered(6)
		want := map[Kind]int{BackInTime: 1}
		if zero {
			want = nil
		}
		if got := r.Check().Counts; !maps.Equal(got, want) {
			t.Errorf("ZeroMayBeOld %v: got %v, want %v", zero, got, want)
		}
	}
}

// TestHoldBoundsTheItems: without the truth, items are kept up to Hold; what is beyond
// is judged all the same.
func TestHoldBoundsTheItems(t *testing.T) {
	r := New(Config{Hold: 10})
	for range 7 {
		r.Client("c").List("/", "").Answered(1, Item{"/a", "x", 1}, Item{"/b", "x", 1}, Item{"/c", "x", 1})
		if r.heldItems > 10 {
			t.Fatalf("%d items are kept", r.heldItems)
		}
	}
	if err := r.Truth(Revision{1, []Change{{Key: "/a", Value: "x"}, {Key: "/b", Value: "x"}}}); err != nil {
		t.Fatal(err)
	}
	counts := r.Check().Counts
	if counts[Phantom] != 3 || counts[WrongValue] != 4 {
		t.Errorf("got %v, want 3 phantoms, and 4 that are wrong but not kept", counts)
	}
}

// TestLeaseEndThatFoundNothing has a revision that is another write's.
func TestLeaseEndThatFoundNothing(t *testing.T) {
	r := New(Config{})
	change := Change{Key: "/a", Value: "x"}
	if err := r.Truth(Revision{1, []Change{change}}); err != nil {
		t.Fatal(err)
	}
	r.Client("c").Write(Create, change).Acknowledged(1)
	r.Client("c").List("/", "").Answered(1, Item{"/a", "x", 1})
	r.Client("c").Write(LeaseEnd, Change{Key: "/b", Deleted: true}).Acknowledged(1)
	if err := r.Check().Err(); err != nil {
		t.Error(err)
	}
}

// TestItemsThatChange under the recorder are no fault of the server, and are named.
func TestItemsThatChange(t *testing.T) {
	r := New(Config{})
	items := []Item{{"/a", "y", 1}}
	r.Client("c").List("/", "").Answered(1, items...)
	items[0].Value = "x"
	if err := r.Truth(Revision{1, []Change{{Key: "/a", Value: "x"}}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Check().Err(); err == nil || !strings.Contains(err.Error(), "changed after they had been recorded") {
		t.Errorf("got %v", err)
	}
}

func TestTruthComesInOrder(t *testing.T) {
	r := New(Config{})
	change := []Change{{Key: "/a", Value: "x"}}
	for _, step := range []struct {
		Revision
		ok bool
	}{
		{Revision{3, change}, true},
		{Revision{3, change}, false},
		{Revision{3, nil}, true},
		{Revision{2, nil}, false},
		{Revision{5, nil}, true},
		{Revision{4, change}, false},
	} {
		if err := r.Truth(step.Revision); (err == nil) != step.ok {
			t.Errorf("%v: %v", step.Revision, err)
		}
	}
	if r.Restored(5) == nil {
		t.Error("Restored without Restoring")
	}
	r.Restoring()
	if r.Restored(6) == nil || r.Restored(4) != nil {
		t.Error("Restored must be to a revision of the truth")
	}
}

// TestManyClients records from many goroutines at once, which is what the race
// detector watches. The store is one map under a lock.
func TestManyClients(t *testing.T) {
	r := New(Config{SecondOpinion: []string{"/a/1"}})
	var mu sync.Mutex
	var revision uint64
	items := map[string]Item{}
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			client, key := r.Client(fmt.Sprint(i)), fmt.Sprint("/a/", i)
			watch := client.Watch("/nowhere/", 0)
			for n := range 100 {
				change := Change{Key: key, Value: fmt.Sprint(n)}
				w := client.Write(Update, change)
				mu.Lock()
				revision++
				items[key] = Item{key, change.Value, revision}
				at := revision
				err := r.Truth(Revision{revision, []Change{change}})
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				w.Acknowledged(at)

				read := client.List("/a/", "")
				mu.Lock()
				at, all := revision, slices.Collect(maps.Values(items))
				mu.Unlock()
				read.Answered(at, all...)
				watch.Delivered(Event{Bookmark: true, Revision: at})
			}
		})
	}
	clients.Wait()
	report := r.Check()
	if err := report.Err(); err != nil || report.Operations != 1600 || report.Revisions != 800 {
		t.Errorf("%d operations, %d revisions: %v", report.Operations, report.Revisions, err)
	}
}
