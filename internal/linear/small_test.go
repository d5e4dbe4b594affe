package linear

import (
	"maps"
	"slices"
	"testing"
)

// tell is Truth, for revisions with one change each.
func tell(t *testing.T, r *Run, from uint64, changes ...Change) {
	t.Helper()
	for i, change := range changes {
		if err := r.Truth(Revision{from + uint64(i), []Change{change}}); err != nil {
			t.Fatal(err)
		}
	}
}

func expect(t *testing.T, r *Run, want map[Kind]int) {
	t.Helper()
	if report := r.Check(); !maps.Equal(report.Counts, want) {
		t.Errorf("expected %v, found: %v", want, report.Err())
	}
}

var (
	putX = Change{Key: "/a", Value: "x"}
	putY = Change{Key: "/a", Value: "y"}
	gone = Change{Key: "/a", Deleted: true}
)

// TestAnswersDuringARestore may be of the history to come, of which nothing is known
// when they are recorded.
func TestAnswersDuringARestore(t *testing.T) {
	r := New(Config{Prefix: "/none/"})
	tell(t, r, 1, putX, gone, putX)
	reader := r.Client("reader")
	r.Restoring()
	before, after := reader.List("/", ""), reader.List("/", "")
	before.Answered(3, Item{"/a", "x", 3})
	after.Answered(3, Item{"/a", "y", 3})
	wrong := reader.List("/", "")
	wrong.Answered(3, Item{"/a", "z", 3})
	if err := r.Restored(2); err != nil {
		t.Fatal(err)
	}
	tell(t, r, 3, putY)
	expect(t, r, map[Kind]int{WrongValue: 1})
}

// TestOneDeletionThatTimedOut accounts for one, and not for two.
func TestOneDeletionThatTimedOut(t *testing.T) {
	r := New(Config{})
	tell(t, r, 1, putX, gone, putY, gone)
	client := r.Client("c")
	client.Write(Create, putX).Acknowledged(1)
	client.Write(Delete, gone)
	client.Write(Create, putY).Acknowledged(3)
	expect(t, r, map[Kind]int{PhantomWrite: 1})
}

// TestLostWriteIsReportedOnce, and does not make others look wrong.
func TestLostWriteIsReportedOnce(t *testing.T) {
	r := New(Config{})
	tell(t, r, 1, putX)
	client := r.Client("c")
	client.Write(Create, putX).Acknowledged(1)
	client.Write(Update, putY).Acknowledged(1)
	client.List("/", "").Answered(1, Item{"/a", "x", 1})
	expect(t, r, map[Kind]int{LostWrite: 1})
}

// TestTruthLetsGo of the items that it bears out, and of no others.
func TestTruthLetsGo(t *testing.T) {
	r := New(Config{})
	r.Client("c").List("/", "").Answered(1, Item{"/a", "x", 1})
	r.Client("c").List("/", "").Answered(2, Item{"/a", "x", 2}, Item{"/b", "x", 2})
	tell(t, r, 1, putX)
	if r.heldItems != 2 || len(r.held) != 1 {
		t.Errorf("%d items of %d answers are kept", r.heldItems, len(r.held))
	}
}

// TestPorcupineKnowsThatVersionsGoUp, also of writes that all overlap.
func TestPorcupineKnowsThatVersionsGoUp(t *testing.T) {
	r := New(Config{SecondOpinion: []string{"/a"}})
	client := r.Client("c")
	client.Write(Create, putX)
	client.Write(Update, putY)
	tell(t, r, 1, putX, putY)
	client.Get("/a", "").Answered(0, Item{"/a", "y", 2})
	client.Get("/a", "").Answered(0, Item{"/a", "x", 1})
	expect(t, r, map[Kind]int{BackInTime: 1, SecondOpinion: 1})
}

// TestUnordered lets reads lack writes below their revision, until these are acknowledged.
func TestUnordered(t *testing.T) {
	other := Item{"/b", "z", 4}
	for name, test := range map[string]struct {
		unordered, acknowledged bool
		items                   []Item // of the LIST at 4; a GET has those of /a
		want                    map[Kind]int
	}{
		"as it is":                        {true, true, []Item{{"/a", "y", 3}, other}, nil},
		"an older version":                {true, false, []Item{{"/a", "x", 2}, other}, nil},
		"an older, acknowledged":          {true, true, []Item{{"/a", "x", 2}, other}, map[Kind]int{OldVersion: 1, BelowAcknowledged: 1}},
		"an older, in order":              {false, false, []Item{{"/a", "x", 2}, other}, map[Kind]int{OldVersion: 1, BelowAcknowledged: 1}},
		"older than what is known":        {true, false, []Item{other}, map[Kind]int{Missing: 1, BelowAcknowledged: 1}},
		"a lag of one, a lack of another": {true, false, []Item{{"/a", "x", 2}}, map[Kind]int{Missing: 1}},
		"a value that never was":          {true, false, []Item{{"/a", "y", 2}, other}, map[Kind]int{OldVersion: 1, WrongValue: 1}},
		"another value":                   {true, false, []Item{{"/a", "x", 3}, other}, map[Kind]int{WrongValue: 2}},
		"too new":                         {true, false, []Item{{"/a", "v", 5}, other}, map[Kind]int{NewVersion: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{Unordered: test.unordered})
			client := r.Client("c")
			putV, putZ := Change{Key: "/a", Value: "v"}, Change{Key: "/b", Value: "z"}
			client.Write(Create, Change{Key: "/a", Value: "w"}).Acknowledged(1)
			client.Write(Update, putX).Acknowledged(2)
			slow := client.Write(Update, putY)
			if test.acknowledged {
				slow.Acknowledged(3)
			}
			client.Write(Create, putZ).Acknowledged(4)
			client.Write(Update, putV)
			client.List("/", "").Answered(4, test.items...)
			var ofA []Item
			for _, i := range test.items {
				if i.Key == "/a" {
					ofA = append(ofA, i)
				}
			}
			client.Get("/a", "").Answered(0, ofA...)
			tell(t, r, 1, Change{Key: "/a", Value: "w"}, putX, putY, putZ, putV)
			expect(t, r, test.want)
		})
	}
}

// TestPorcupineRemembers what was seen in the windows before: of writes that timed out
// nothing else tells when they were there.
func TestPorcupineRemembers(t *testing.T) {
	r := New(Config{Unordered: true, SecondOpinion: []string{"/a"}})
	client := r.Client("c")
	client.Write(Create, putX)
	tell(t, r, 1, putX)
	for range window {
		client.Get("/a", "").Answered(0, Item{"/a", "x", 1})
	}
	client.Get("/a", "").Answered(0)
	expect(t, r, map[Kind]int{SecondOpinion: 1})
}

// TestKeysOfViolations: they are all that is wrong, and none where an answer is too old.
func TestKeysOfViolations(t *testing.T) {
	r := New(Config{Keep: 1})
	client := r.Client("c")
	putB := Change{Key: "/b", Value: "x"}
	client.Write(Create, putX).Acknowledged(1)
	client.Write(Create, putB).Acknowledged(2)
	tell(t, r, 1, putX, putB)
	for range 2 {
		client.List("/", "").Answered(2)
	}
	client.List("/", "").Answered(1, Item{"/a", "x", 1})
	client.Watch("/", 0).Delivered(Event{Key: "/b", Value: "x", Revision: 2})
	keys := map[Kind][]string{}
	report := r.Check()
	for _, v := range report.Violations {
		keys[v.Kind] = v.Keys
	}
	want := map[Kind][]string{Missing: {"/a", "/b"}, BelowAcknowledged: nil, WatchGap: {"/a"}}
	if !maps.EqualFunc(keys, want, slices.Equal) || len(report.Violations) != 3 || report.Counts[Missing] != 2 {
		t.Errorf("got %v of %v", keys, report.Counts)
	}
}

// TestLeaseThatWasOvertaken: a write that comes late takes a key from its lease, whose end
// then deletes nothing. Without such a write the end is lost.
func TestLeaseThatWasOvertaken(t *testing.T) {
	for name, test := range map[string]struct {
		late bool
		want map[Kind]int
	}{"overtaken": {true, nil}, "lost": {false, map[Kind]int{LostWrite: 1}}} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{})
			client := r.Client("c")
			if test.late {
				client.Write(Txn, putY) // it timed out
			}
			client.Write(Txn, putX).Acknowledged(1)
			client.Write(LeaseEnd, Change{Key: "/a", Value: "x", Deleted: true}).Acknowledged(2)
			client.Write(Create, Change{Key: "/b", Value: "x"}).Acknowledged(3)
			if tell(t, r, 1, putX); test.late {
				tell(t, r, 2, putY)
			}
			tell(t, r, 3, Change{Key: "/b", Value: "x"})
			expect(t, r, test.want)
		})
	}
}

// TestPassesOver lets a watch leave out what came and went before its next event, and nothing
// else.
func TestPassesOver(t *testing.T) {
	b := func(at uint64) Event { return Event{Key: "/b", Value: "x", Revision: at} }
	gap := map[Kind]int{WatchGap: 1}
	for name, test := range map[string]struct {
		strict bool
		truth  []Change // of revisions 1, 2, ...
		events []Event
		want   map[Kind]int
	}{
		"came and went":         {false, []Change{{"/a", "x", false}, {"/a", "y", false}, {"/a", "", true}, {"/b", "x", false}}, []Event{b(4)}, nil},
		"strict":                {true, []Change{{"/a", "x", false}, {"/a", "", true}, {"/b", "x", false}}, []Event{b(3)}, gap},
		"came and stayed":       {false, []Change{{"/a", "x", false}, {"/b", "x", false}, {"/a", "", true}}, []Event{b(2)}, gap},
		"was there before":      {false, []Change{{"/a", "x", false}, {"/a", "", true}, {"/b", "x", false}}, []Event{{Key: "/a", Value: "x", Revision: 1}, b(3)}, gap},
		"only the end of it":    {false, []Change{{"/a", "x", false}, {"/a", "", true}}, []Event{{Key: "/a", Revision: 2, Deleted: true}}, map[Kind]int{WatchBack: 1}},
		"a bookmark after it":   {false, []Change{{"/a", "x", false}, {"/a", "", true}}, []Event{{Revision: 2, Bookmark: true}}, nil},
		"a bookmark between":    {false, []Change{{"/a", "x", false}, {"/a", "", true}}, []Event{{Revision: 1, Bookmark: true}}, gap},
		"two lives, one passed": {false, []Change{{"/a", "x", false}, {"/a", "", true}, {"/a", "y", false}, {"/b", "x", false}}, []Event{b(4)}, gap},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Config{PassesOver: !test.strict})
			client := r.Client("c")
			w := client.Watch("/", 0)
			for i, change := range test.truth {
				kind := Update
				if change.Deleted {
					kind = Delete
				}
				client.Write(kind, change).Acknowledged(uint64(i + 1))
				tell(t, r, uint64(i+1), change)
			}
			w.Delivered(test.events...)
			expect(t, r, test.want)
		})
	}
}
