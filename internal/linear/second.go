package linear

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// window is how many reads porcupine is given at a time, with the writes beside them:
// its search grows with the length of a history, not only with what is concurrent.
const window = 2000

// patience is how long porcupine may search in one window. It takes milliseconds.
const patience = 20 * time.Second

// projection is what one read says of one key.
type projection struct {
	op   *op
	seen uint64 // the version; 0: absent
}

// projectLocked notes what a fresh read says of the keys for the second opinion.
func (r *Run) projectLocked(o *op, items []Item) {
	for key := range r.projected {
		if !o.fresh || o.target != key && (o.kind == get || !strings.HasPrefix(key, o.target)) {
			continue
		}
		p := projection{op: o}
		if i := slices.IndexFunc(items, func(item Item) bool { return item.Key == key }); i >= 0 {
			p.seen = items[i].Revision
		}
		r.projected[key] = append(r.projected[key], p)
	}
}

// askPorcupine gives the history of one key to porcupine, window by window, and
// returns how many operations that were.
func (r *Run) askPorcupine(key string) (operations int) {
	for _, e := range r.epochs {
		var reads []projection
		for _, p := range r.projected[key] {
			if r.belongsTo(p.op, e) {
				reads = append(reads, p)
			}
		}
		slices.SortFunc(reads, func(a, b projection) int { return cmp.Compare(a.op.begin, b.op.begin) })
		for from := 0; from < len(reads); from += window {
			some := reads[from:min(from+window, len(reads))]
			history, initial := e.history(key, some, seenBefore(reads[:from], some[0].op.begin))
			operations += len(history)
			result := porcupine.CheckOperationsTimeout(register(initial), history, patience)
			r.opinion(result, key, len(history), some[0].op)
		}
	}
	return operations
}

// opinion takes what porcupine says of some operations, the first of which is given.
func (r *Run) opinion(result porcupine.CheckResult, key string, operations int, first *op) {
	switch result {
	case porcupine.Illegal:
		r.found.addOf([]string{key}, SecondOpinion, first, "porcupine finds no order for the %d operations on %s that begin here", operations, key)
	case porcupine.Unknown:
		r.found.addOf([]string{key}, Undecided, first, "porcupine did not decide on the %d operations on %s that begin here", operations, key)
	}
}

// seenBefore is the newest version that was seen by reads which had ended by then.
func seenBefore(reads []projection, begin int64) (version uint64) {
	for _, p := range reads {
		if p.op.end < begin {
			version = max(version, p.seen)
		}
	}
	return version
}

// history returns the reads and the writes beside them, and what the key was before:
// the newest version whose write had ended, or that is known to have been there, with which
// all older ones had been.
func (e *epoch) history(key string, reads []projection, known uint64) (history []porcupine.Operation, initial state) {
	from, until := reads[0].op.begin, int64(0)
	for _, p := range reads {
		until = max(until, p.op.end)
		history = append(history, porcupine.Operation{Input: step{read: true}, Output: p.seen, Call: p.op.begin, Return: p.op.end})
	}
	versions := e.truth.keys[key]
	for i, v := range slices.Backward(versions) {
		if _, end := v.interval(); end < from || v.revision <= max(e.base, known) {
			initial, versions = state{v.revision, v.deleted}, versions[i+1:]
			break
		}
	}
	for _, v := range versions {
		if call, end := v.interval(); call <= until {
			history = append(history, porcupine.Operation{Input: step{to: state{v.revision, v.deleted}}, Call: call, Return: end})
		}
	}
	return history, initial
}

// interval returns when the version was written, as far as that is known.
func (v version) interval() (call, end int64) {
	if v.by == nil {
		return 0, forever
	}
	return v.by.begin, v.by.end
}

// state is one version of a key; step is a write of it, or a read.
type state struct {
	revision uint64
	deleted  bool
}

type step struct {
	read bool
	to   state
}

// register is porcupine's model of one key: versions only go up, and a read answers
// with the one that is there.
func register(initial state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(now, input, output any) (bool, any) {
			s, in := now.(state), input.(step)
			if !in.read {
				return in.to.revision > s.revision, in.to
			}
			if s.deleted || s.revision == 0 {
				return output.(uint64) == 0, s
			}
			return output.(uint64) == s.revision, s
		},
	}
}
