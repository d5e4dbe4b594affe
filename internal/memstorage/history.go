package memstorage

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// history is every version of every key. Its owner guards it; what it hands out is
// never changed, and is copied before it leaves the package.
type history struct {
	revision  uint64
	compacted uint64 // 0: never
	names     []string
	versions  map[string][]version // of a key, oldest first
	log       []change             // oldest first
}

// version is one state of a key. Its object carries its resourceVersion.
type version struct {
	revision uint64
	object   runtime.Object // nil: deleted, or never there
}

// write is a change that has no revision yet.
type write struct {
	key    string
	object runtime.Object // nil: delete
}

// change is what a write did.
type change struct {
	revision uint64
	key      string
	object   runtime.Object // nil: deleted
	previous runtime.Object // nil: created
}

func newHistory() history {
	return history{revision: 1, versions: map[string][]version{}}
}

// prepared is a copy of object as it is stored: without a resourceVersion.
func prepared(object runtime.Object) (runtime.Object, error) {
	object = object.DeepCopyObject()
	if err := versioner.PrepareObjectForStorage(object); err != nil {
		return nil, fmt.Errorf("memstorage: %T cannot be stored: %w", object, err)
	}
	return object, nil
}

// commit makes writes at one new revision. Their objects become the history's.
func (h *history) commit(writes []write) []change {
	h.revision++
	changes := make([]change, 0, len(writes))
	for _, w := range writes {
		if w.object != nil {
			// It was prepared, which fails for what has no metadata.
			_ = versioner.UpdateObject(w.object, h.revision)
		}
		c := change{revision: h.revision, key: w.key, object: w.object, previous: h.newest(w.key).object}
		h.add(w.key, version{h.revision, w.object})
		changes = append(changes, c)
	}
	h.log = append(h.log, changes...)
	return changes
}

func (h *history) add(key string, v version) {
	if _, known := h.versions[key]; !known {
		at, _ := slices.BinarySearch(h.names, key)
		h.names = slices.Insert(h.names, at, key)
	}
	h.versions[key] = append(h.versions[key], v)
}

// newest is the present state of a key.
func (h *history) newest(key string) version {
	return h.at(key, h.revision)
}

// at is the state of a key at a revision.
func (h *history) at(key string, revision uint64) version {
	for _, v := range slices.Backward(h.versions[key]) {
		if v.revision <= revision {
			return v
		}
	}
	return version{}
}

// entry is a key that exists.
type entry struct {
	key    string
	object runtime.Object
}

// under is what existed under prefix at a revision, from the key start on, in the
// order of the keys.
func (h *history) under(prefix, start string, revision uint64) []entry {
	var entries []entry
	at, _ := slices.BinarySearch(h.names, max(prefix, start))
	for _, key := range h.names[at:] {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if v := h.at(key, revision); v.object != nil {
			entries = append(entries, entry{key, v.object})
		}
	}
	return entries
}

// since is what was changed after a revision, one slice for each revision.
func (h *history) since(revision uint64) [][]change {
	var all [][]change
	for i, c := range h.log {
		switch {
		case c.revision <= revision:
		case len(all) > 0 && h.log[i-1].revision == c.revision:
			all[len(all)-1] = append(all[len(all)-1], c)
		default:
			all = append(all, []change{c})
		}
	}
	return all
}

func (h *history) compact(revision uint64) error {
	switch {
	case revision > h.revision:
		return fmt.Errorf("memstorage: revision %d cannot be compacted, the newest is %d", revision, h.revision)
	case revision <= h.compacted:
		return fmt.Errorf("memstorage: revision %d is compacted already, up to %d", revision, h.compacted)
	}
	h.compacted = revision
	h.log = slices.DeleteFunc(h.log, func(c change) bool { return c.revision < revision })
	for key, versions := range h.versions {
		// The state at the compacted revision stays.
		first := 0
		for i, v := range versions {
			if v.revision <= revision {
				first = i
			}
		}
		h.versions[key] = versions[first:]
	}
	return nil
}

func (h *history) restore(revision uint64) error {
	if revision < max(h.compacted, 1) || revision > h.revision {
		return fmt.Errorf("memstorage: revision %d cannot be restored, there is %d to %d", revision, max(h.compacted, 1), h.revision)
	}
	h.revision = revision
	h.log = slices.DeleteFunc(h.log, func(c change) bool { return c.revision > revision })
	for key, versions := range h.versions {
		h.versions[key] = slices.DeleteFunc(versions, func(v version) bool { return v.revision > revision })
	}
	return nil
}
