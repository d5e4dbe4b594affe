package decorator

import "slices"

// turns is a queue in which flows take turns: after an item of one flow comes one of the
// next, and within a flow whoever came first is first. So what a flow waits for does not grow
// with what others have put into the queue. An item may stand in several flows.
type turns[T comparable] struct {
	flows map[string]*flow[T]
	ring  []*flow[T] // those with items; the next turn is the first one's
}

type flow[T comparable] struct {
	name  string
	items []T // at least one
}

// add puts an item at the end of a flow.
func (q *turns[T]) add(name string, item T) {
	f := q.flows[name]
	if f == nil {
		if q.flows == nil {
			q.flows = map[string]*flow[T]{}
		}
		f = &flow[T]{name: name}
		q.flows[name] = f
		q.ring = append(q.ring, f)
	}
	f.items = append(f.items, item)
}

// remove takes an item out of a flow, wherever it stands, if it does.
func (q *turns[T]) remove(name string, item T) {
	f := q.flows[name]
	if f == nil {
		return
	}
	if i := slices.Index(f.items, item); i >= 0 {
		f.items = slices.Delete(f.items, i, i+1)
	}
	if len(f.items) == 0 {
		delete(q.flows, name)
		q.ring = slices.DeleteFunc(q.ring, func(other *flow[T]) bool { return other == f })
	}
}

// next takes the item whose turn it is out of the flow whose turn it is. Items that are not
// ready are passed over, and keep their place; their flow keeps its turn.
func (q *turns[T]) next(ready func(T) bool) (item T, found bool) {
	for i, f := range q.ring {
		at := slices.IndexFunc(f.items, ready)
		if at < 0 {
			continue
		}
		item = f.items[at]
		q.ring = append(slices.Delete(q.ring, i, i+1), f) // behind all others
		q.remove(f.name, item)
		return item, true
	}
	return item, false
}

// empty reports whether nothing waits.
func (q *turns[T]) empty() bool { return len(q.ring) == 0 }

// others reports whether a flow waits that is not among these.
func (q *turns[T]) others(these map[string]int) bool {
	return slices.ContainsFunc(q.ring, func(f *flow[T]) bool { return these[f.name] == 0 })
}
