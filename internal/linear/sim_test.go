package linear

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// call is one operation of a simulated run.
type call struct {
	client             string
	kind               opKind
	begin, effect, end int64

	write    WriteKind
	changes  []Change
	outcome  outcome
	applied  uint64 // the revision that a write made, 0: none
	revision uint64 // what was told

	target   string
	asked    string
	exact    bool
	items    []Item
	straddle bool // of two histories
}

// view is what one watch delivered, all of it at once at the end of the epoch.
type view struct {
	prefix string
	after  uint64
	events []Event
}

// past is one history of the simulated backend.
type past struct {
	restoring, restored int64 // when it came into force; 0 for the first
	base                uint64
	truth               []Revision
	views               []view
}

// world is a simulated run that is linearizable, until a mutant plants a fault.
type world struct {
	rng    *rand.Rand
	calls  []*call
	epochs []*past
	values int
	faults map[string][2]int
}

// habits are how the clients of a world behave.
type habits struct {
	clients, ops int
	keys         []string
	writes       float64 // share of the operations
	strict       bool    // fresh reads only, and each write tells its revision or is a put
	slow         int64   // the longest time between begin, effect and end
}

var usual = habits{clients: 5, ops: 24, keys: []string{"/a/1", "/a/2", "/a/3", "/b/1", "/b/2"}, writes: 0.4, slow: 40}

func newWorld(seed uint64) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 1)), epochs: []*past{{}}}
}

func (w *world) last() *past { return w.epochs[len(w.epochs)-1] }

func (w *world) end() (end int64) {
	for _, c := range w.calls {
		end = max(end, c.end)
	}
	return end
}

// run lets the clients work from a time on. Each operation takes effect at one moment
// between its begin and its end; that makes the run linearizable.
func (w *world) run(h habits, start int64) {
	var calls []*call
	for i := range h.clients {
		now := start
		for range h.ops {
			c := &call{client: fmt.Sprintf("%s%d", w.last().name(), i), begin: now + 1 + w.rng.Int64N(h.slow)}
			c.effect = c.begin + w.rng.Int64N(h.slow)
			c.end = c.effect + w.rng.Int64N(h.slow)
			now = c.end
			w.plan(c, h)
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.effect, b.effect) })
	for _, c := range calls {
		if c.kind == write {
			w.apply(c, h)
		} else {
			w.answer(c)
		}
	}
	w.calls = append(w.calls, calls...)
	for range 3 {
		w.watch()
	}
}

func (p *past) name() string { return fmt.Sprintf("c%d-", p.restored) }

func (w *world) one(keys []string) string { return keys[w.rng.IntN(len(keys))] }

// plan decides what a client asks for.
func (w *world) plan(c *call, h habits) {
	if w.rng.Float64() < h.writes {
		c.kind, c.write = write, WriteKind(w.rng.IntN(5))
		keys := []string{w.one(h.keys)}
		if c.write >= Txn {
			keys = w.some(h.keys)
		}
		for _, key := range keys {
			change := Change{Key: key, Deleted: c.write == Delete || c.write == LeaseEnd || c.write == Txn && w.rng.IntN(3) == 0}
			if !change.Deleted {
				w.values++
				change.Value = fmt.Sprint("v", w.values)
			}
			c.changes = append(c.changes, change)
		}
		return
	}
	c.kind, c.target = list, w.one([]string{"/", "/a/", "/b/"})
	if w.rng.IntN(3) == 0 {
		c.kind, c.target = get, w.one(h.keys)
	}
	if w.rng.IntN(4) == 0 {
		c.asked = "0"
	}
	if !h.strict && w.rng.IntN(6) == 0 {
		c.asked = "N"
		c.exact = c.kind == list && w.rng.IntN(2) == 0
	}
}

func (w *world) some(keys []string) (some []string) {
	for _, i := range w.rng.Perm(len(keys))[:2+w.rng.IntN(len(keys)-1)] {
		some = append(some, keys[i])
	}
	return some
}

// apply lets a write take effect, or fail, or time out.
func (w *world) apply(c *call, h habits) {
	var changes []Change
	for _, change := range c.changes {
		_, live := w.at(change.Key, w.now())
		if !change.Deleted || live {
			changes = append(changes, change)
		}
	}
	deletes := slices.ContainsFunc(c.changes, func(change Change) bool { return change.Deleted })
	if c.write == Txn && h.strict && len(changes) < len(c.changes) {
		changes = nil // its conditions do not hold
	}
	c.outcome = done
	switch luck := w.rng.IntN(10); {
	case len(changes) == 0 || luck == 0:
		c.outcome = failed
		return
	case luck == 1 && !(h.strict && deletes):
		c.outcome = open
		if w.rng.IntN(2) == 0 {
			return
		}
	}
	c.applied = w.now() + 1
	w.last().truth = append(w.last().truth, Revision{c.applied, changes})
	if c.outcome == done && (h.strict || c.write >= Txn || w.rng.IntN(4) > 0) {
		c.revision = c.applied
	}
}

// now is the newest revision of the backend.
func (w *world) now() uint64 { return w.last().now() }

func (p *past) now() uint64 {
	if len(p.truth) == 0 {
		return p.base
	}
	return p.truth[len(p.truth)-1].Revision
}

// answer lets a read take effect.
func (w *world) answer(c *call) {
	at := w.now()
	if c.asked == "N" && at == 0 {
		c.asked, c.exact = "", false
	}
	if c.asked == "N" { // an old revision, which a cache answers that may be further
		n := 1 + w.rng.Uint64N(at)
		c.asked = fmt.Sprint(n)
		if at = min(at, n+w.rng.Uint64N(3)); c.exact {
			at = n
		}
	}
	w.tell(c, at)
	if w.rng.IntN(12) == 0 {
		c.outcome = failed
	}
}

// tell makes the answer of a read that of a revision.
func (w *world) tell(c *call, at uint64) {
	c.outcome, c.revision, c.items = done, at, w.state(c.target, at)
	if c.kind == get {
		c.items = nil
		if item, live := w.at(c.target, at); live {
			c.items = []Item{item}
		}
	}
}

// at returns the object at a revision of the last history, worked out in the plainest way.
func (w *world) at(key string, revision uint64) (item Item, live bool) {
	for _, p := range w.epochs {
		for _, r := range p.truth {
			for _, change := range r.Changes {
				if change.Key == key && r.Revision <= revision && w.inHistory(p, r.Revision) {
					item, live = Item{key, change.Value, r.Revision}, !change.Deleted
				}
			}
		}
	}
	return item, live
}

// inHistory reports whether a revision of an epoch is also one of the last history.
func (w *world) inHistory(p *past, revision uint64) bool {
	for i, later := range w.epochs {
		if i > slices.Index(w.epochs, p) && revision > later.base {
			return false
		}
	}
	return true
}

func (w *world) state(prefix string, revision uint64) (items []Item) {
	keys := map[string]bool{}
	for _, p := range w.epochs {
		for _, r := range p.truth {
			for _, change := range r.Changes {
				keys[change.Key] = keys[change.Key] || strings.HasPrefix(change.Key, prefix)
			}
		}
	}
	for key, below := range keys {
		if item, live := w.at(key, revision); below && live {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	return items
}

// watch adds a watch of the last history, with a bookmark here and there.
func (w *world) watch() {
	p := w.last()
	v := view{prefix: w.one([]string{"/", "/a/", "/b/"}), after: p.base + w.rng.Uint64N(w.now()-p.base+1)}
	for _, r := range p.truth {
		if r.Revision <= v.after {
			continue
		}
		for _, change := range r.Changes {
			if strings.HasPrefix(change.Key, v.prefix) {
				v.events = append(v.events, Event{Key: change.Key, Value: change.Value, Deleted: change.Deleted, Revision: r.Revision})
			}
		}
		if w.rng.IntN(5) == 0 {
			v.events = append(v.events, Event{Bookmark: true, Revision: r.Revision})
		}
	}
	p.views = append(p.views, v)
}

// restore puts the world back to a revision, and lets some reads run into that.
func (w *world) restore(revision uint64) {
	restoring := w.end() + 1
	restored := restoring + 10
	var both []*call
	for i := range 8 {
		c := &call{client: fmt.Sprint("straddler", i), kind: list, target: "/", straddle: true}
		c.begin = restoring - 3 + w.rng.Int64N(12)
		c.end = max(c.begin, restoring) + w.rng.Int64N(20)
		both = append(both, c)
	}
	for _, c := range both[:4] {
		w.tell(c, w.now())
		c.begin = min(c.begin, restored)
	}
	w.epochs = append(w.epochs, &past{restoring: restoring, restored: restored, base: revision})
	for _, c := range both[4:] {
		w.tell(c, revision)
	}
	w.calls = append(w.calls, both...)
}

// play records the world in a Run. The truth comes as it happens, or in the end.
func (w *world) play(t *testing.T, cfg Config, live bool) *Report {
	t.Helper()
	r := New(cfg)
	now := int64(0)
	r.now = func() int64 { return now }
	type event struct {
		at   int64
		rank int // of events at the same time
		do   func()
	}
	var events []event
	clients := map[string]*Client{}
	for _, c := range w.calls {
		if clients[c.client] == nil {
			clients[c.client] = r.Client(c.client)
		}
		var end func()
		begin := func() { end = c.play(clients[c.client]) }
		events = append(events, event{c.begin, 2, begin}, event{c.end, 3, func() { end() }})
	}
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for i, p := range w.epochs {
		told := 0
		tell := func(upTo int64) {
			for told < len(p.truth) && (upTo == forever || w.madeAt(p, p.truth[told].Revision) <= upTo) {
				check(r.Truth(p.truth[told]))
				told++
			}
		}
		if live {
			for _, c := range w.calls {
				events = append(events, event{c.effect + w.rng.Int64N(30), 0, func() {
					if p == w.epochs[i] && (i == 0 || now > p.restored) && (i+1 == len(w.epochs) || now <= w.epochs[i+1].restored) {
						tell(now)
					}
				}})
			}
		}
		ends := int64(forever)
		if i+1 < len(w.epochs) {
			ends = w.epochs[i+1].restored
		}
		if i > 0 {
			events = append(events, event{p.restoring, 0, r.Restoring},
				event{p.restored, 5, func() { check(r.Restored(p.base)) }})
		}
		for _, v := range p.views {
			var watch *Watch
			events = append(events, event{p.restored + 1, 6, func() { watch = r.Client("w").Watch(v.prefix, v.after) }},
				event{min(ends, w.end()+1), 1, func() { watch.Delivered(v.events...) }})
		}
		events = append(events, event{ends, 4, func() { tell(forever) }})
	}
	for name, n := range w.faults {
		events = append(events, event{0, 0, func() {
			for range n[0] {
				r.Planned(name)
			}
			for range n[1] {
				r.Happened(name)
			}
		}})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
	for _, e := range events {
		now = e.at
		e.do()
	}
	return r.Check()
}

// madeAt returns when a revision was made.
func (w *world) madeAt(p *past, revision uint64) int64 {
	for _, c := range w.calls {
		if c.kind == write && c.applied == revision && c.begin > p.restored {
			return c.effect
		}
	}
	return 0
}

// play begins the operation and returns what ends it.
func (c *call) play(client *Client) (end func()) {
	if c.kind == write {
		w := client.Write(c.write, c.changes...)
		switch c.outcome {
		case done:
			return func() { w.Acknowledged(c.revision) }
		case failed:
			return w.Failed
		}
		return func() {}
	}
	var r *Read
	switch {
	case c.exact:
		var n uint64
		fmt.Sscan(c.asked, &n)
		r = client.ListExact(c.target, n)
	case c.kind == list:
		r = client.List(c.target, c.asked)
	default:
		r = client.Get(c.target, c.asked)
	}
	if c.outcome == failed {
		return r.Failed
	}
	return func() { r.Answered(c.revision, c.items...) }
}
