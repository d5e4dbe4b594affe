package linear

import (
	"slices"
	"strings"
	"testing"
)

// fault is what a mutant planted: of this kind, in the operation that began then (0:
// in none).
type fault struct {
	kind  Kind
	begin int64
}

// mutant plants one fault in a world, or finds no place for it.
type mutant func(w *world) (fault, bool)

// mutants has one for each kind of violation, by what it does.
var mutants = map[string]mutant{
	"a list misses an acknowledged write": onRead(func(w *world, c *call) (Kind, bool) {
		floor := w.written(c.begin)
		return BelowAcknowledged, c.kind == list && c.fresh() && floor > 0 && w.tellAt(c, floor-1)
	}),
	"a get misses an acknowledged write": onRead(func(w *world, c *call) (Kind, bool) {
		floor := w.written(c.begin)
		if c.kind != get || !c.fresh() || floor == 0 {
			return "", false
		}
		before, live := w.at(c.target, floor-1)
		for at := floor; at <= w.now(); at++ {
			now, liveNow := w.at(c.target, at)
			if live == liveNow && (!live || now == before) {
				return "", false // the key is so once more
			}
		}
		return BelowAcknowledged, w.tellAt(c, floor-1)
	}),
	"a list goes back behind another": onRead(func(w *world, c *call) (Kind, bool) {
		seen := w.seen(c.begin)
		return BackInTime, c.kind == list && c.fresh() && seen > max(1, w.applied(c.begin)) && w.tellAt(c, seen-1)
	}),
	"a list knows a write that had not begun": onRead(func(w *world, c *call) (Kind, bool) {
		for _, later := range w.calls {
			if c.kind == list && !c.exact && later.revision > 0 && later.kind == write && later.begin > c.end {
				return Future, w.tellAt(c, later.revision)
			}
		}
		return "", false
	}),
	"a list is beyond the end": onRead(func(w *world, c *call) (Kind, bool) {
		return Future, c.kind == list && w.tellAt(c, w.now()+3)
	}),
	"a list at N is older": onRead(func(w *world, c *call) (Kind, bool) {
		return NotAsAsked, c.kind == list && c.n() > 0 && w.tellAt(c, c.n()-1)
	}),
	"an exact list is newer": onRead(func(w *world, c *call) (Kind, bool) {
		return NotAsAsked, c.exact && c.n() < w.applied(c.begin) && w.tellAt(c, c.n()+1)
	}),
	"a list has a part of a revision": onRead(func(w *world, c *call) (Kind, bool) {
		for _, r := range w.last().truth {
			changes := below(c.target, r.Changes)
			if c.kind == list && r.Revision <= c.revision && len(changes) > 1 && w.unchanged(changes, r.Revision, c.revision) {
				return Torn, c.put(w, changes[0].Key, r.Revision-1)
			}
		}
		return "", false
	}),
	"a list has a part of the next revision": onRead(func(w *world, c *call) (Kind, bool) {
		for _, r := range w.last().truth {
			changes := below(c.target, r.Changes)
			if c.kind == list && r.Revision == c.revision+1 && len(changes) > 1 {
				return Torn, c.put(w, changes[0].Key, r.Revision)
			}
		}
		return "", false
	}),
	"a list lacks an object": onItem(func(w *world, c *call, i int) Kind {
		c.items = slices.Delete(c.items, i, i+1)
		return Missing
	}),
	"a list has an object that never was": onItem(func(w *world, c *call, i int) Kind {
		c.items[i].Key += "x"
		c.items = append(c.items, Item{strings.TrimSuffix(c.items[i].Key, "x"), c.items[i].Value, c.items[i].Revision})
		return Phantom
	}),
	"a list has a deleted object": onRead(func(w *world, c *call) (Kind, bool) {
		for _, r := range w.last().truth {
			if c.kind == list && len(r.Changes) == 1 && r.Changes[0].Deleted && len(below(c.target, r.Changes)) == 1 &&
				r.Revision <= c.revision && w.unchanged(r.Changes, r.Revision, c.revision) {
				return Phantom, c.put(w, r.Changes[0].Key, r.Revision-1)
			}
		}
		return "", false
	}),
	"a list has an old version": onItem(func(w *world, c *call, i int) Kind {
		before, live := w.at(c.items[i].Key, c.items[i].Revision-1)
		if !live {
			return ""
		}
		c.items[i] = before
		return OldVersion
	}),
	"a list has a newer version": onItem(func(w *world, c *call, i int) Kind {
		for _, r := range w.last().truth {
			if r.Revision > c.revision && len(r.Changes) == 1 && r.Changes[0].Key == c.items[i].Key && !r.Changes[0].Deleted {
				c.items[i].Revision, c.items[i].Value = r.Revision, r.Changes[0].Value
				return NewVersion
			}
		}
		return ""
	}),
	"a list has another value": onItem(func(w *world, c *call, i int) Kind {
		c.items[i].Value += "x"
		return WrongValue
	}),
	"a list has an object twice": onItem(func(w *world, c *call, i int) Kind {
		c.items = append(c.items, c.items[i])
		return Duplicate
	}),
	"a get has another value": onRead(func(w *world, c *call) (Kind, bool) {
		if c.kind != get || len(c.items) == 0 {
			return "", false
		}
		c.items[0].Value += "x"
		return WrongValue, true
	}),
	"a get has a deletion as an object": onRead(func(w *world, c *call) (Kind, bool) {
		for _, r := range w.last().truth {
			for _, change := range r.Changes {
				if c.kind == get && change.Deleted && change.Key == c.target {
					c.items = []Item{{Key: change.Key, Revision: r.Revision}}
					return WrongValue, true
				}
			}
		}
		return "", false
	}),
	"a write is acknowledged, with a revision, and nowhere": onWrite(func(w *world, c *call) (fault, bool) {
		told := 1 + w.rng.Uint64N(w.now()+1)
		if c.outcome != failed || c.write >= Txn || !w.unchanged(c.changes, told-1, told) {
			return fault{}, false
		}
		c.outcome, c.revision = done, told
		return fault{LostWrite, c.begin}, true
	}),
	"a write is acknowledged, without a revision, and nowhere": onWrite(func(w *world, c *call) (fault, bool) {
		if c.outcome != failed || c.write > Update {
			return fault{}, false
		}
		c.outcome = done
		return fault{LostWrite, c.begin}, true
	}),
	"a deletion is acknowledged, without a revision, and nowhere": onWrite(func(w *world, c *call) (fault, bool) {
		for _, r := range w.last().truth {
			for _, change := range r.Changes {
				if change.Deleted && change.Key == c.changes[0].Key && r.Revision > w.written(c.begin) {
					return fault{}, false
				}
			}
		}
		if c.write != Delete || c.applied > 0 {
			return fault{}, false
		}
		c.outcome = done
		return fault{LostWrite, c.begin}, true
	}),
	"two writes are told the same revision": onWrite(func(w *world, c *call) (fault, bool) {
		if c.revision == 0 {
			return fault{}, false
		}
		second := *c
		second.end++
		w.calls = append(w.calls, &second)
		return fault{LostWrite, c.begin}, true
	}),
	"a write fails and is there": onWrite(func(w *world, c *call) (fault, bool) {
		if c.applied == 0 || slices.ContainsFunc(c.changes, func(change Change) bool { return change.Deleted }) {
			return fault{}, false
		}
		c.outcome, c.revision = failed, 0
		return fault{PhantomWrite, 0}, true
	}),
	"a deletion that nobody asked for": func(w *world) (fault, bool) {
		for _, item := range w.state("/", w.now()) {
			deletion := Change{Key: item.Key, Deleted: true}
			maybe := slices.ContainsFunc(w.calls, func(c *call) bool {
				return c.kind == write && c.outcome != failed && c.revision == 0 && slices.Contains(c.changes, deletion)
			})
			if !maybe {
				w.last().truth = append(w.last().truth, Revision{w.now() + 1, []Change{deletion}})
				return fault{PhantomWrite, 0}, true
			}
		}
		return fault{}, false
	},
	"a write is put before an earlier one": onWrite(func(w *world, c *call) (fault, bool) {
		for _, earlier := range w.calls {
			if c.revision > 0 && earlier.kind == write && earlier.revision > c.revision {
				c.begin, c.end = earlier.end+1, earlier.end+2
				return fault{WriteOrder, c.begin}, true
			}
		}
		return fault{}, false
	}),
	"a watch leaves out a change": onView(2, func(w *world, v *view, i int) Kind {
		if i == len(v.events)-1 || v.events[i].Bookmark {
			return ""
		}
		v.events = slices.Delete(v.events, i, i+1)
		return WatchGap
	}),
	"a bookmark comes before its change": onView(1, func(w *world, v *view, i int) Kind {
		if v.events[i].Bookmark {
			return ""
		}
		v.events = slices.Insert(v.events, i, Event{Bookmark: true, Revision: v.events[i].Revision})
		return WatchGap
	}),
	"a watch delivers a change again": onView(2, func(w *world, v *view, i int) Kind {
		if v.events[i].Bookmark {
			return ""
		}
		v.events = append(v.events, v.events[i])
		return WatchBack
	}),
	"a watch delivers one of several changes twice": onView(2, func(w *world, v *view, i int) Kind {
		if i == 0 || v.events[i].Bookmark || v.events[i-1].Bookmark || v.events[i].Revision != v.events[i-1].Revision {
			return ""
		}
		v.events = slices.Insert(v.events, i, v.events[i-1])
		return WatchBack
	}),
	"a watch delivers what has not come to pass": onView(1, func(w *world, v *view, i int) Kind {
		v.events = append(v.events, Event{Key: "/a/1", Value: "x", Revision: w.now() + 5})
		return WatchPhantom
	}),
	"a bookmark goes back": onView(2, func(w *world, v *view, i int) Kind {
		if v.events[i].Revision == v.events[len(v.events)-1].Revision {
			return ""
		}
		v.events = append(v.events, Event{Bookmark: true, Revision: v.events[i].Revision})
		return WatchBack
	}),
	"a watch swaps two changes of one revision": onView(2, func(w *world, v *view, i int) Kind {
		if i == 0 || v.events[i].Bookmark || v.events[i-1].Bookmark || v.events[i].Revision != v.events[i-1].Revision {
			return ""
		}
		v.events[i], v.events[i-1] = v.events[i-1], v.events[i]
		return WatchGap
	}),
	"a watch delivers another value": onView(1, func(w *world, v *view, i int) Kind {
		if v.events[i].Bookmark || v.events[i].Deleted {
			return ""
		}
		v.events[i].Value += "x"
		return WatchPhantom
	}),
	"a watch delivers what is elsewhere": onView(1, func(w *world, v *view, i int) Kind {
		v.prefix = "/nowhere/"
		if v.events[0].Bookmark {
			return ""
		}
		return WatchPhantom
	}),
	"a list comes from before the restore": afterRestore(func(w *world, c *call, base uint64) (Kind, bool) {
		old := w.now()
		return BeforeRestore, w.tellAt(c, old) && !slices.Equal(c.items, w.state("/", min(old, base)))
	}),
	"a list is older than what was restored": afterRestore(func(w *world, c *call, base uint64) (Kind, bool) {
		return BelowAcknowledged, w.tellAt(c, base-1)
	}),
	"a write is put into what was restored": afterRestore(func(w *world, c *call, base uint64) (Kind, bool) {
		c.kind, c.write, c.changes = write, Txn, w.last().truth[base-1].Changes
		c.outcome, c.revision = done, base
		return WriteOrder, true
	}),
	"porcupine sees that a get is older than what was restored": afterRestore(func(w *world, c *call, base uint64) (Kind, bool) {
		now, live := w.at("/a/1", base)
		if !live {
			return "", false
		}
		c.kind, c.target = get, "/a/1"
		return SecondOpinion, w.tellAt(c, now.Revision-1)
	}),
	"porcupine sees that a get misses an acknowledged write": onWrite(func(w *world, c *call) (fault, bool) {
		if c.revision == 0 || c.changes[0] != (Change{Key: "/a/1", Value: c.changes[0].Value}) || !w.unchanged(c.changes[:1], c.applied, w.now()) {
			return fault{}, false
		}
		late := &call{client: "late", kind: get, target: "/a/1", begin: c.end + 1, end: c.end + 2}
		w.tell(late, c.applied-1)
		w.calls = append(w.calls, late)
		return fault{SecondOpinion, 0}, true
	}),
}

// written is the highest revision of the writes that were acknowledged before.
func (w *world) written(before int64) (revision uint64) {
	for _, c := range w.calls {
		if c.kind == write && c.outcome == done && c.end < before {
			revision = max(revision, c.revision)
		}
	}
	return revision
}

// applied is the same, with those that were not told their revision.
func (w *world) applied(before int64) (revision uint64) {
	for _, c := range w.calls {
		if c.kind == write && c.outcome == done && c.end < before {
			revision = max(revision, c.applied)
		}
	}
	return revision
}

// seen is the highest revision of the lists that had ended before.
func (w *world) seen(before int64) (revision uint64) {
	for _, c := range w.calls {
		if c.kind == list && c.outcome == done && c.end < before {
			revision = max(revision, c.revision)
		}
	}
	return revision
}

func (c *call) fresh() bool { return c.n() == 0 }

// n is the revision that a read asked for.
func (c *call) n() (n uint64) {
	for _, digit := range c.asked {
		n = 10*n + uint64(digit-'0')
	}
	return n
}

func (w *world) tellAt(c *call, at uint64) bool {
	w.tell(c, at)
	return true
}

// put makes one key of a list what it was at a revision.
func (c *call) put(w *world, key string, at uint64) bool {
	c.items = slices.DeleteFunc(c.items, func(item Item) bool { return item.Key == key })
	if item, live := w.at(key, at); live {
		c.items = append(c.items, item)
	}
	return true
}

func below(prefix string, changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !strings.HasPrefix(c.Key, prefix) })
}

// unchanged reports whether none of the keys was changed again, up to a revision.
func (w *world) unchanged(changes []Change, from, to uint64) bool {
	for _, r := range w.last().truth {
		for _, later := range r.Changes {
			if r.Revision > from && r.Revision <= to && slices.ContainsFunc(changes, func(c Change) bool { return c.Key == later.Key }) {
				return false
			}
		}
	}
	return true
}

// single reports whether the changes of the key around a revision were each alone in
// their revision, so that no answer is torn there.
func (w *world) single(key string, around uint64) bool {
	for _, r := range w.last().truth {
		if r.Revision+1 < around || len(r.Changes) == 1 {
			continue
		}
		if slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Key == key }) {
			return false
		}
	}
	return true
}

func onRead(plant func(*world, *call) (Kind, bool)) mutant {
	return func(w *world) (fault, bool) {
		for _, i := range w.rng.Perm(len(w.calls)) {
			if c := w.calls[i]; c.kind != write && c.outcome == done {
				if kind, ok := plant(w, c); ok {
					return fault{kind, c.begin}, true
				}
			}
		}
		return fault{}, false
	}
}

func onItem(plant func(*world, *call, int) Kind) mutant {
	return onRead(func(w *world, c *call) (Kind, bool) {
		for i, item := range c.items {
			if c.kind == list && w.single(item.Key, item.Revision) {
				if kind := plant(w, c, i); kind != "" {
					return kind, true
				}
			}
		}
		return "", false
	})
}

func onWrite(plant func(*world, *call) (fault, bool)) mutant {
	return func(w *world) (fault, bool) {
		for _, i := range w.rng.Perm(len(w.calls)) {
			if c := w.calls[i]; c.kind == write {
				if f, ok := plant(w, c); ok {
					return f, true
				}
			}
		}
		return fault{}, false
	}
}

// afterRestore restores the world to half of its revisions. The list begins after that,
// and is planted while the history before is still the last.
func afterRestore(plant func(w *world, c *call, base uint64) (Kind, bool)) mutant {
	return func(w *world) (fault, bool) {
		base, restoring := w.now()/2, w.end()+10
		c := &call{client: "late", kind: list, target: "/", begin: restoring + 20, end: restoring + 30}
		kind, ok := plant(w, c, base)
		w.calls = append(w.calls, c)
		w.epochs = append(w.epochs, &past{restoring: restoring, restored: restoring + 10, base: base})
		w.run(usual, c.end)
		return fault{kind, c.begin}, ok
	}
}

func onView(events int, plant func(*world, *view, int) Kind) mutant {
	return func(w *world) (fault, bool) {
		for v := range w.last().views {
			v := &w.last().views[v]
			if len(v.events) < events {
				continue
			}
			for _, i := range w.rng.Perm(len(v.events)) {
				if kind := plant(w, v, i); kind != "" {
					return fault{kind, 1}, true
				}
			}
		}
		return fault{}, false
	}
}

// TestMutantsAreCaught plants each fault in many worlds: it is found, under its name
// and in the operation that it was planted in.
func TestMutantsAreCaught(t *testing.T) {
	for name, plant := range mutants {
		t.Run(name, func(t *testing.T) {
			planted := 0
			for seed := range uint64(worlds) {
				w := newWorld(seed)
				w.run(usual, 0)
				f, ok := plant(w)
				if !ok {
					continue
				}
				planted++
				report := w.play(t, Config{SecondOpinion: []string{"/a/1"}}, seed%2 == 0)
				found := slices.ContainsFunc(report.Violations, func(v Violation) bool {
					return v.Kind == f.kind && (f.kind == SecondOpinion || v.At.Nanoseconds() == f.begin)
				})
				if !found {
					t.Fatalf("seed %d: no %q in the operation that began at %d, but: %v", seed, f.kind, f.begin, report.Err())
				}
			}
			if planted < worlds/10 {
				t.Errorf("only %d of %d worlds had a place for it", planted, worlds)
			}
		})
	}
}
