package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is one key of which an answer says something else than the truth.
type difference struct {
	kind Kind
	text string
	// revisions are those whose change of the key the answer may lack, or have too early
	revisions []uint64
}

// explain says what is wrong with the items of a LIST. Where a revision changed
// several keys and the answer has a part of it, that is the fault named. Nothing is wrong
// with a LIST that only lacks what it may; see Config.Unordered. The keys are all that are
// wrong.
func (t *truth) explain(o *op, items []Item, unordered bool) (kind Kind, wrong []string, text string) {
	prefix, at := o.target, o.revision
	got := map[string]Item{}
	for _, item := range items {
		if _, twice := got[item.Key]; twice {
			return Duplicate, []string{item.Key}, fmt.Sprintf("%s is in the list twice", item.Key)
		}
		got[item.Key] = item
	}
	differences, lags := map[string]difference{}, false
	for key := range t.keys {
		item, found := got[key]
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		d, differs := t.compare(key, at, item, found)
		switch {
		case !differs:
		case unordered && (!found || t.wrote(item)) && t.mayLag(key, item.Revision, at, o.begin):
			lags = true
		default:
			differences[key] = d
		}
	}
	for key := range got {
		if t.keys[key] == nil || !strings.HasPrefix(key, prefix) {
			differences[key] = difference{Phantom, "was never written there", nil}
		}
	}
	keys := slices.Sorted(maps.Keys(differences))
	switch {
	case len(keys) > 0:
	case lags:
		return "", nil, ""
	default:
		return WrongValue, nil, "the items were changed after they had been recorded"
	}
	var texts []string
	for _, key := range keys[:min(len(keys), 5)] {
		texts = append(texts, key+" "+differences[key].text)
	}
	text = fmt.Sprintf("%d of the keys are wrong: %s", len(keys), strings.Join(texts, "; "))
	for _, key := range keys {
		for _, revision := range differences[key].revisions {
			for _, change := range t.changesAt(revision, prefix) {
				if !slices.Contains(differences[change.Key].revisions, revision) {
					return Torn, keys, fmt.Sprintf("revision %d shows on one of %s and %s only; %s", revision, key, change.Key, text)
				}
			}
		}
	}
	return differences[keys[0]].kind, keys, text
}

// compare compares what a LIST said of one key with its state at a revision.
func (t *truth) compare(key string, at uint64, got Item, found bool) (difference, bool) {
	want, live := t.at(key, at)
	switch {
	case !found && live:
		d := difference{kind: Missing, text: fmt.Sprintf("is missing, written at %d", want.revision)}
		if _, before := t.at(key, want.revision-1); !before {
			d.revisions = append(d.revisions, want.revision) // its creation is lacking
		}
		if next := t.index(at + 1); next < len(t.revisions) {
			if v := t.exactly(key, t.revisions[next].Revision); v != nil && v.deleted {
				d.revisions = append(d.revisions, v.revision) // its deletion came too early
			}
		}
		return d, true
	case found && got.Revision > at:
		return difference{NewVersion, fmt.Sprintf("is at %d already", got.Revision), []uint64{got.Revision}}, true
	case found && !live:
		return difference{Phantom, fmt.Sprintf("is there, and was deleted (or not there yet) at %d", want.revision), []uint64{want.revision}}, true
	case !found:
		return difference{}, false
	case got.Revision != want.revision:
		return difference{OldVersion, fmt.Sprintf("is at %d, and in truth at %d", got.Revision, want.revision), []uint64{want.revision}}, true
	case got.Value != want.value:
		return difference{WrongValue, fmt.Sprintf("is %q, and %q in truth", got.Value, want.value), nil}, true
	}
	return difference{}, false
}

// wrote reports whether the item is a version that there was.
func (t *truth) wrote(item Item) bool {
	v := t.exactly(item.Key, item.Revision)
	return v != nil && !v.deleted && v.value == item.Value
}

// mayLag reports whether a read that began then, at the revision, may have seen that
// version of the key (0: none): no later one up to the revision had been acknowledged.
func (t *truth) mayLag(key string, seen, at uint64, begin int64) bool {
	versions := t.keys[key]
	for _, v := range slices.Backward(versions[:after(versions, at)]) {
		if v.deleted && seen == 0 || !v.deleted && v.revision == seen {
			return true
		}
		if _, end := v.interval(); end < begin {
			return false
		}
	}
	return seen == 0
}
