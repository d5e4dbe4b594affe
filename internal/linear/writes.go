package linear

import "fmt"

// account finds for each write the revision that it made, and for each revision the
// write that made it. A write that timed out is in the truth or not: that settles it.
func (r *Run) account(writes []*op) {
	puts := make([]map[[2]string]uint64, len(r.epochs))
	for i, e := range r.epochs {
		puts[i] = e.truth.puts()
	}
	// deletions that may have happened, at a revision that nobody was told, by key
	deletions := map[string]int{}
	for _, w := range writes {
		if w.outcome != failed && !r.find(w, puts) {
			for _, change := range w.write.changes {
				if change.Deleted {
					deletions[change.Key]++
				}
			}
		}
	}
	for _, e := range r.epochs {
		r.phantoms(e, writes, deletions)
	}
}

// puts returns the revision of each value of each key.
func (t *truth) puts() map[[2]string]uint64 {
	puts := make(map[[2]string]uint64, len(t.revisions))
	for key, versions := range t.keys {
		for _, v := range versions {
			if !v.deleted {
				puts[[2]string{key, v.value}] = v.revision
			}
		}
	}
	return puts
}

// find reports whether the revision of the write is settled: it is known, or the
// write is known to be lost or to have done nothing.
func (r *Run) find(w *op, puts []map[[2]string]uint64) bool {
	past, possible := r.epochsOf(w)
	told, found := w.revision, false
	for i, e := range possible {
		revision := told
		for _, change := range w.write.changes {
			if revision == 0 && !change.Deleted {
				revision = puts[len(past)+i][[2]string{change.Key, change.Value}]
			}
		}
		if revision > 0 && e.truth.claim(w, revision) {
			w.revision, found = revision, true
		}
	}
	if found || w.outcome == open || told == 0 && w.write.kind == Delete {
		return found // for a deletion the order tells
	}
	truth := possible[len(possible)-1].truth
	r.found.add(LostWrite, w, "it is not in the truth, which has at this revision: %+v", truth.changesAt(told, ""))
	w.outcome = lost
	return true
}

// claim reports whether the revision is what the write would have made, and nobody
// else's, and then takes it for the write. Where it did nothing, as its keys had gone,
// that is the same as a write that failed.
func (t *truth) claim(w *op, revision uint64) bool {
	var made []*version
	for _, change := range w.write.changes {
		v := t.exactly(change.Key, revision)
		if (v == nil || !v.deleted) && change.Deleted && w.write.kind >= Txn {
			now, live := t.at(change.Key, revision)
			if !live || w.write.kind == LeaseEnd && change.Value != "" && now.value != change.Value {
				continue
			}
		}
		if v == nil || v.by != nil || v.deleted != change.Deleted || !v.deleted && v.value != change.Value {
			return false
		}
		made = append(made, v)
	}
	for _, v := range made {
		v.by = w
	}
	if len(made) == 0 {
		w.outcome = failed
	}
	return true
}

// phantoms finds the changes that no write accounts for.
func (r *Run) phantoms(e *epoch, writes []*op, deletions map[string]int) {
	for _, revision := range e.truth.revisions {
		if revision.Revision <= e.base {
			continue // accounted for before the restore
		}
		for _, change := range e.truth.changesAt(revision.Revision, r.cfg.Prefix) {
			switch v := e.truth.exactly(change.Key, revision.Revision); {
			case v.by != nil:
			case v.deleted && deletions[change.Key] > 0:
				deletions[change.Key]--
			default:
				r.found.add(PhantomWrite, nil, "revision %d has %+v, which no write accounts for%s", revision.Revision, change, r.refused(change, writes))
			}
		}
	}
}

// refused says whose failed write it was that made the change, if one did.
func (r *Run) refused(change Change, writes []*op) string {
	if !r.found.room(PhantomWrite) || change.Deleted {
		return ""
	}
	for _, w := range writes {
		for _, meant := range w.write.changes {
			if w.outcome == failed && meant == change {
				return fmt.Sprintf("; it was said to have failed: %v", w)
			}
		}
	}
	return ""
}
