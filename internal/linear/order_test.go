package linear

import "testing"

// TestHardOrders are small histories in which one operation bounds another by way of a
// third, or by a revision that nobody was told.
func TestHardOrders(t *testing.T) {
	put := func(revision uint64, key, value string) Revision {
		return Revision{revision, []Change{{Key: key, Value: value}}}
	}
	deletion := Revision{3, []Change{{Key: "/a", Deleted: true}}}
	truth := []Revision{put(1, "/a", "x"), put(2, "/b", "y"), deletion, put(4, "/a", "z")}
	state2 := []Item{{"/a", "x", 1}, {"/b", "y", 2}}
	writeOf := func(r Revision, begin, end int64) *call {
		return &call{kind: write, write: Txn, changes: r.Changes, outcome: done, applied: r.Revision, revision: r.Revision, begin: begin, end: end}
	}
	open := func(r Revision, begin int64) *call {
		c := writeOf(r, begin, begin)
		c.outcome, c.revision = 0, 0
		return c
	}
	untold := func(r Revision, begin, end int64) *call {
		c := writeOf(r, begin, end)
		c.write, c.revision = Delete, 0
		return c
	}
	listed := func(revision uint64, begin, end int64, items ...Item) *call {
		return &call{kind: list, target: "/", outcome: done, revision: revision, items: items, begin: begin, end: end}
	}
	got := func(key string, begin, end int64, items ...Item) *call {
		return &call{kind: get, target: key, outcome: done, items: items, begin: begin, end: end}
	}
	for name, test := range map[string]struct {
		calls []*call
		found fault // zero: nothing
	}{
		"an absence between a list and a list": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[2], 1), open(truth[3], 1),
			listed(2, 10, 11, state2...), got("/a", 12, 13), listed(3, 14, 15, state2[1]),
		}, fault{}},
		"an absence, and a list before it again": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[2], 1), open(truth[3], 1),
			listed(2, 10, 11, state2...), got("/a", 12, 13), listed(2, 14, 15, state2...),
		}, fault{BackInTime, 14}},
		"an absence before the first write": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[2], 1), open(truth[3], 1),
			got("/a", 12, 13), listed(2, 14, 15, state2...),
		}, fault{}},
		"an absence before the deletion began": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[3], 1),
			listed(2, 10, 11, state2...), got("/a", 12, 13), writeOf(truth[2], 14, 15),
		}, fault{Future, 12}},
		"a write that timed out, and was seen before it began": {[]*call{
			open(truth[0], 1), listed(2, 10, 11, state2...), open(truth[1], 12), open(truth[2], 13), open(truth[3], 13),
		}, fault{Future, 10}},
		"a deletion that told nothing bounds what follows": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[3], 1),
			untold(truth[2], 10, 11), listed(2, 14, 15, state2...),
		}, fault{BelowAcknowledged, 14}},
		"a deletion that told nothing is not that of another": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[3], 1),
			writeOf(truth[2], 1, 3), untold(truth[2], 1, 2), listed(2, 14, 15, state2...),
		}, fault{LostWrite, 1}},
		"an old value in place of a newer": {[]*call{
			open(truth[0], 1), open(truth[1], 1), open(truth[2], 1), writeOf(truth[3], 1, 9),
			got("/a", 12, 13, state2[0]),
		}, fault{BelowAcknowledged, 12}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			w.last().truth, w.calls = truth, append(test.calls, listed(0, 0, 0))
			report := w.play(t, Config{}, false)
			for _, v := range report.Violations {
				if v.Kind == test.found.kind && v.At.Nanoseconds() == test.found.begin {
					return
				}
			}
			if len(report.Counts) > 0 || test.found.kind != "" {
				t.Errorf("expected %+v, found: %v", test.found, report.Err())
			}
		})
	}
}
