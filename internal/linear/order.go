package linear

import (
	"cmp"
	"fmt"
	"slices"
)

// bound is the highest revision among operations that have ended, and whose it is; by
// is nil for the state that was restored.
type bound struct {
	revision uint64
	by       *op
}

func (b *bound) raise(o *op) {
	if o.point > b.revision {
		*b = bound{o.point, o}
	}
}

func (b bound) String() string {
	if b.by == nil {
		return fmt.Sprintf("the restore to revision %d", b.revision)
	}
	return b.by.String()
}

// order judges the real-time order of the operations of one epoch: each stands at a
// revision, and none that began after another had ended may stand below it. In the
// order in which they began, each takes the lowest revision that it can; whatever
// bounds it has ended, so began, before.
func (r *Run) order(e *epoch) {
	begins := r.withoutFuture(r.standing(e))
	slices.SortFunc(begins, func(a, b *op) int { return cmp.Compare(a.begin, b.begin) })
	ends := slices.Clone(begins)
	slices.SortFunc(ends, func(a, b *op) int { return cmp.Compare(a.end, b.end) })

	written, seen := bound{revision: e.base}, bound{}
	for _, o := range begins {
		for ; ends[0].end < o.begin; ends = ends[1:] {
			if ends[0].kind == write {
				written.raise(ends[0])
			} else {
				seen.raise(ends[0])
			}
		}
		if o.kind == write {
			r.placeWrite(e.truth, o, written, seen)
		} else {
			r.placeRead(e.truth, o, written, seen)
		}
	}
}

// standing returns the operations of the epoch that have a place in its order. One
// that ran into a restore has none; nor has a write that timed out before one, as it
// may have taken effect after.
func (r *Run) standing(e *epoch) (ops []*op) {
	for _, c := range r.clients {
		for _, o := range c.ops {
			answered := o.outcome == done && o.revision <= e.truth.last
			found := o.kind == write && o.outcome == open && o.revision > 0
			if (answered || found) && r.belongsTo(o, e) {
				ops = append(ops, o)
			}
		}
	}
	return ops
}

// withoutFuture takes out the reads that know a revision whose write, or an earlier
// one, began after they had ended. Left in, each would put the blame on the many that
// come after it.
func (r *Run) withoutFuture(ops []*op) []*op {
	slices.SortFunc(ops, func(a, b *op) int { return cmp.Compare(b.end, a.end) })
	writes := slices.DeleteFunc(slices.Clone(ops), func(o *op) bool { return o.kind != write || o.revision == 0 })
	slices.SortFunc(writes, func(a, b *op) int { return cmp.Compare(b.begin, a.begin) })
	var lowest *op // of the writes that began later
	return slices.DeleteFunc(ops, func(o *op) bool {
		for ; len(writes) > 0 && writes[0].begin > o.end; writes = writes[1:] {
			if lowest == nil || writes[0].revision < lowest.revision {
				lowest = writes[0]
			}
		}
		future := o.kind != write && lowest != nil && o.revision >= lowest.revision
		if future {
			r.found.add(Future, o, "this revision did not exist yet: after the read had ended began %v", lowest)
		}
		return future
	})
}

func (r *Run) placeWrite(t *truth, o *op, written, seen bound) {
	o.point = o.revision
	if o.point == 0 {
		// A deletion that did not tell its revision: the lowest that it can be.
		versions := t.keys[o.write.changes[0].Key]
		for _, v := range versions[after(versions, max(written.revision, seen.revision)):] {
			if v.deleted && v.by == nil {
				o.point = v.revision
				return
			}
		}
		r.found.add(LostWrite, o, "it was acknowledged, and the key was not deleted after %v", written)
		return
	}
	if o.point <= written.revision {
		r.found.add(WriteOrder, o, "it began after the end of %v", written)
	}
	if o.point <= seen.revision {
		r.found.add(Future, seen.by, "it is right at revision %d or later only: after it had ended began %v", seen.revision, o)
	}
}

func (r *Run) placeRead(t *truth, o *op, written, seen bound) {
	var ok bool
	if o.point, ok = o.lowest(t, o.asked); !ok || o.exact && o.revision != o.asked {
		r.found.add(NotAsAsked, o, "this is not what was asked for")
	}
	if !o.fresh {
		return
	}
	if r.cfg.Unordered && o.kind == get {
		if !t.mayLag(o.target, o.revision, t.last, o.begin) {
			r.found.add(BelowAcknowledged, o, "a later write of the key was acknowledged before it began")
		}
		return
	}
	if _, ok = o.lowest(t, written.revision); !ok {
		r.found.add(BelowAcknowledged, o, "expected at least revision %d, of %v", written.revision, written)
	} else if _, ok = o.lowest(t, seen.revision); !ok {
		r.found.add(BackInTime, o, "expected at least revision %d, of %v", seen.revision, seen)
	} else {
		o.point, _ = o.lowest(t, max(written.revision, seen.revision))
	}
}

// lowest returns the lowest revision, not below the floor, at which the answer is
// right, and whether there is one.
func (o *op) lowest(t *truth, floor uint64) (uint64, bool) {
	if o.kind == list {
		return o.revision, o.revision >= floor
	}
	return t.lowest(o.target, o.revision, floor)
}
