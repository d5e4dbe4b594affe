package linear

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// Change is what one write did to one key. The Value of a deletion is not looked at, but
// for that of a LeaseEnd: it is what the key had when it got the lease, which another write
// takes away again. Empty means any.
type Change struct {
	Key, Value string
	Deleted    bool
}

// Revision is all that the backend changed at one revision, in its order.
type Revision struct {
	Revision uint64
	Changes  []Change
}

// version is one change of a key.
type version struct {
	revision uint64
	value    string
	deleted  bool
	by       *op // the write that accounts for it
}

// truth is what the backend held at each revision.
type truth struct {
	seed      maphash.Seed
	last      uint64 // it is known up to this revision
	revisions []Revision
	keys      map[string][]version
	sums      map[string][]sumAt // by prefix
}

// sumAt is the sum of the state below a prefix, from one revision on; of those with
// the same revision the last counts.
type sumAt struct{ revision, sum uint64 }

func newTruth(seed maphash.Seed) *truth {
	return &truth{seed: seed, keys: map[string][]version{}, sums: map[string][]sumAt{}}
}

// sum is that of the items in any order. An item that comes twice counts twice.
func sum(seed maphash.Seed, items []Item) uint64 {
	var total uint64
	for _, item := range items {
		total += maphash.Comparable(seed, item)
	}
	return total
}

func (t *truth) append(r Revision) error {
	if r.Revision < t.last || r.Revision == t.last && len(r.Changes) > 0 {
		return fmt.Errorf("linear: revision %d of the truth came after %d", r.Revision, t.last)
	}
	t.last = r.Revision
	if len(r.Changes) == 0 {
		return nil
	}
	t.revisions = append(t.revisions, r)
	for _, change := range r.Changes {
		delta := t.delta(change, r.Revision)
		for prefix := range t.sums {
			if strings.HasPrefix(change.Key, prefix) {
				t.sums[prefix] = add(t.sums[prefix], r.Revision, delta)
			}
		}
		t.keys[change.Key] = append(t.keys[change.Key],
			version{revision: r.Revision, value: change.Value, deleted: change.Deleted})
	}
	return nil
}

// delta is what a change at the revision adds to the sums of its prefixes.
func (t *truth) delta(change Change, revision uint64) uint64 {
	var delta uint64
	if !change.Deleted {
		delta = sum(t.seed, []Item{{change.Key, change.Value, revision}})
	}
	if before, live := t.at(change.Key, revision-1); live {
		delta -= sum(t.seed, []Item{{change.Key, before.value, before.revision}})
	}
	return delta
}

func add(sums []sumAt, revision, delta uint64) []sumAt {
	if n := len(sums); n > 0 {
		delta += sums[n-1].sum
	}
	return append(sums, sumAt{revision, delta})
}

// sumBelow returns the sum of the state below the prefix at the revision.
func (t *truth) sumBelow(prefix string, revision uint64) uint64 {
	sums, ok := t.sums[prefix]
	if !ok {
		for _, r := range t.revisions {
			for _, change := range r.Changes {
				if strings.HasPrefix(change.Key, prefix) {
					sums = add(sums, r.Revision, t.delta(change, r.Revision))
				}
			}
		}
		t.sums[prefix] = sums
	}
	i, _ := slices.BinarySearchFunc(sums, revision+1, func(s sumAt, r uint64) int { return cmp.Compare(s.revision, r) })
	if i == 0 {
		return 0
	}
	return sums[i-1].sum
}

// after returns the index of the first version above the revision.
func after(versions []version, revision uint64) int {
	i, _ := slices.BinarySearchFunc(versions, revision+1, func(v version, r uint64) int { return cmp.Compare(v.revision, r) })
	return i
}

// at returns the newest version of the key at or below the revision, and whether the
// key was there.
func (t *truth) at(key string, revision uint64) (v version, live bool) {
	versions := t.keys[key]
	i := after(versions, revision)
	if i == 0 {
		return version{}, false
	}
	v = versions[i-1]
	return v, !v.deleted
}

// exactly returns the version that the revision made of the key, or nil.
func (t *truth) exactly(key string, revision uint64) *version {
	versions := t.keys[key]
	if i := after(versions, revision); i > 0 && versions[i-1].revision == revision {
		return &versions[i-1]
	}
	return nil
}

// index returns the index of the first revision at or above this one.
func (t *truth) index(revision uint64) int {
	i, _ := slices.BinarySearchFunc(t.revisions, revision, func(a Revision, r uint64) int { return cmp.Compare(a.Revision, r) })
	return i
}

// changesAt returns what the revision changed below the prefix.
func (t *truth) changesAt(revision uint64, prefix string) (changes []Change) {
	i := t.index(revision)
	if i == len(t.revisions) || t.revisions[i].Revision != revision {
		return nil
	}
	for _, change := range t.revisions[i].Changes {
		if strings.HasPrefix(change.Key, prefix) {
			changes = append(changes, change)
		}
	}
	return changes
}

// lowest returns the lowest revision, at or above the floor, at which the key was as
// a GET saw it: at that version, or absent where the version is 0.
func (t *truth) lowest(key string, seen, floor uint64) (revision uint64, ok bool) {
	versions := t.keys[key]
	if seen > 0 {
		i := after(versions, seen)
		return max(seen, floor), i == len(versions) || versions[i].revision > floor
	}
	if _, live := t.at(key, floor); !live {
		return floor, true
	}
	for _, v := range versions[after(versions, floor):] {
		if v.deleted {
			return v.revision, true
		}
	}
	return 0, false
}
