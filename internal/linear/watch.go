package linear

import (
	"fmt"
	"slices"
	"strings"
)

// Event is what a watch delivered. The Value of a deletion is not looked at, and of a
// bookmark only the revision is.
type Event struct {
	Key, Value string
	Revision   uint64
	Deleted    bool
	Bookmark   bool
}

// Watch is what one watch delivers: it must be each change below its prefix, in the
// order of the truth, once. What is not delivered in the end is no fault; a bookmark
// says that all up to it was. Only the first fault of a watch is reported.
type Watch struct {
	op
	epoch   *epoch // nil: not judged
	waiting []Event
	broken  bool
	at      uint64 // the revision of the last event
	// what is expected next is at or after this change of this revision of the truth
	position, change int
	// passed has the keys whose changes are not expected up to a revision; see Config.PassesOver.
	passed map[string]uint64
}

// Watch records a watch of the keys below the prefix for what comes after a revision.
// Its list is recorded as List; so are the initial events of a watch that sends them,
// with the state that they make and the revision of the bookmark that ends them. A
// watch that is opened during a restore is not judged; one that outlives a restore is
// held to the history in which it began.
func (c *Client) Watch(prefix string, after uint64) *Watch {
	r := c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &Watch{op: op{client: c, kind: watch, target: prefix, begin: r.now(), end: forever, asked: after, phase: uint16(len(r.phases) - 1)}, at: after}
	if r.restoring == 0 {
		w.epoch = r.inForceLocked()
	}
	r.watches = append(r.watches, w)
	return w
}

// Delivered records the next events of the watch. It is called by one goroutine.
func (w *Watch) Delivered(events ...Event) {
	r := w.client.run
	r.mu.Lock()
	defer r.mu.Unlock()
	w.waiting = append(w.waiting, events...)
	w.judge(false)
}

// judge judges what the truth has reached, or all.
func (w *Watch) judge(all bool) {
	for len(w.waiting) > 0 && (all || w.epoch != nil && w.waiting[0].Revision <= w.epoch.truth.last) {
		event := w.waiting[0]
		w.waiting = w.waiting[1:]
		if w.epoch == nil || w.broken {
			continue
		}
		if kind, key, text := w.next(event); kind != "" {
			w.broken = true
			w.client.run.found.addOf([]string{key}, kind, &w.op, "%+v: %s", event, text)
		}
	}
}

// next takes one event as the next, or says what is wrong with it: of a gap, with the key
// that is left out.
func (w *Watch) next(event Event) (kind Kind, key, text string) {
	if w.client.run.cfg.PassesOver {
		w.passOver(event.Revision)
	}
	expected, at := w.expected()
	nothing := at == 0
	switch {
	case event.Bookmark:
		if event.Revision < w.at {
			return WatchBack, event.Key, fmt.Sprintf("revision %d was delivered before", w.at)
		}
		if !nothing && at <= event.Revision {
			return WatchGap, expected.Key, fmt.Sprintf("expected %+v at %d before", expected, at)
		}
		w.at = event.Revision
		return "", "", ""
	case event.Revision == at && event.is(expected):
		w.at = at
		w.change++
		return "", "", ""
	}
	truth := w.epoch.truth
	changes := truth.changesAt(event.Revision, w.target)
	is := slices.IndexFunc(changes, event.is)
	switch {
	case is < 0:
		return WatchPhantom, event.Key, fmt.Sprintf("the truth has at this revision: %+v", changes)
	case nothing || event.Revision < at || event.Revision == at && is < slices.Index(changes, expected):
		return WatchBack, event.Key, fmt.Sprintf("it is past already, at %d", w.at)
	}
	return WatchGap, expected.Key, fmt.Sprintf("expected %+v at %d before", expected, at)
}

// passOver expects nothing of objects that came, and went again by the revision.
func (w *Watch) passOver(revision uint64) {
	truth := w.epoch.truth
	for {
		change, at := w.expected()
		if at == 0 || at >= revision || change.Deleted {
			return
		}
		_, there := truth.at(change.Key, at-1)
		versions := truth.keys[change.Key]
		later := versions[after(versions, at):]
		gone := slices.IndexFunc(later, func(v version) bool { return v.deleted })
		if there || gone < 0 || later[gone].revision > revision {
			return
		}
		if w.passed == nil {
			w.passed = map[string]uint64{}
		}
		w.passed[change.Key] = later[gone].revision
	}
}

func (e Event) is(change Change) bool {
	return e.Key == change.Key && e.Deleted == change.Deleted && (e.Deleted || e.Value == change.Value)
}

// expected returns the next change that the watch is to deliver, and its revision; 0
// while the truth has none.
func (w *Watch) expected() (Change, uint64) {
	for revisions := w.epoch.truth.revisions; w.position < len(revisions); w.position++ {
		for r := revisions[w.position]; r.Revision > w.asked && w.change < len(r.Changes); w.change++ {
			change := r.Changes[w.change]
			if strings.HasPrefix(change.Key, w.target) && r.Revision > w.passed[change.Key] {
				return change, r.Revision
			}
		}
		w.change = 0
	}
	return Change{}, 0
}
