package linear

import "slices"

// held is an answer that waits for the truth.
type held struct {
	op      *op
	items   []Item
	dropped bool // the items were, to keep within Config.Hold
	sum     uint64
}

// answered judges an answer, now or when the truth has come to its revision.
func (r *Run) answered(h held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.projectLocked(h.op, h.items)
	if r.heldItems+len(h.items) > r.cfg.Hold {
		h.items, h.dropped = nil, true
	}
	r.heldItems += len(h.items)
	if r.knownLocked(h.op) {
		r.judgeLocked(h)
	} else {
		r.held = append(r.held, h)
	}
}

// judgeHeldLocked judges the answers that the truth has reached; at the end of the
// run, all.
func (r *Run) judgeHeldLocked(all bool) {
	r.held = slices.DeleteFunc(r.held, func(h held) bool {
		known := all || r.knownLocked(h.op)
		if known {
			r.judgeLocked(h)
		}
		return known
	})
}

// knownLocked reports whether all that the truth will ever say about the answer has
// been told.
func (r *Run) knownLocked(o *op) bool {
	if r.restoring != 0 && o.end >= r.restoring {
		return false
	}
	_, possible := r.epochsOf(o)
	last := possible[len(possible)-1]
	return last != r.inForceLocked() || o.revision <= last.truth.last
}

// judgeLocked compares one answer with the state at its revision. One that is wrong
// is kept, to be explained when all of the truth is known.
func (r *Run) judgeLocked(h held) {
	_, possible := r.epochsOf(h.op)
	if slices.ContainsFunc(possible, func(e *epoch) bool { return h.matches(e.truth) }) {
		r.heldItems -= len(h.items)
	} else {
		r.wrong = append(r.wrong, h)
	}
}

// explainLocked says what is wrong with an answer.
func (r *Run) explainLocked(h held) {
	past, possible := r.epochsOf(h.op)
	truth := possible[len(possible)-1].truth
	switch {
	case slices.ContainsFunc(past, func(e *epoch) bool { return h.matches(e.truth) }):
		r.found.add(BeforeRestore, h.op, "the answer is right for the history before the restore to revision %d", possible[0].base)
	case h.op.revision > truth.last:
		r.found.add(Future, h.op, "the backend never came further than revision %d", truth.last)
	case h.op.kind == get:
		r.found.add(WrongValue, h.op, "no such version of the object was ever written: %+v", h.items)
	case h.dropped:
		r.found.add(WrongValue, h.op, "the items are not those of the revision (they were not kept: tell the truth sooner, or raise Hold)")
	default:
		if kind, keys, text := truth.explain(h.op, h.items, r.cfg.Unordered); kind != "" {
			r.found.addOf(keys, kind, h.op, "%s", text)
		}
	}
}

// matches reports whether the answer is the state at its revision. A GET that found
// nothing has none: its time is judged with the order.
func (h held) matches(t *truth) bool {
	o := h.op
	switch {
	case o.revision > t.last:
		return false
	case o.kind == list:
		return h.sum == t.sumBelow(o.target, o.revision)
	case o.revision == 0:
		return true
	}
	v := t.exactly(o.target, o.revision)
	return v != nil && !v.deleted && h.sum == sum(t.seed, []Item{{o.target, v.value, v.revision}})
}
