package decorator

import (
	"slices"
	"testing"
)

// TestTurns: flows take turns, whoever came first is first within one, and what is not ready
// keeps its place.
func TestTurns(t *testing.T) {
	var q turns[string]
	for _, item := range []string{"a1", "a2", "a3", "b1", "a4", "c1", "b2"} {
		q.add(item[:1], item)
	}
	q.add("d", "b2") // stands in two flows
	q.remove("a", "a3")
	q.remove("a", "a3")
	q.remove("z", "a3")
	blocked := "b1"
	ready := func(item string) bool { return item != blocked }
	var got []string
	take := func() bool {
		item, found := q.next(ready)
		if found {
			got = append(got, item)
			q.remove("b", item)
			q.remove("d", item)
		}
		return found
	}
	for range 3 {
		take()
	}
	q.add("c", "c2")
	for take() {
	}
	if blocked = ""; q.empty() || !q.others(map[string]int{"a": 1}) || q.others(map[string]int{"b": 1}) {
		t.Errorf("what is not ready was lost: %v", q.ring)
	}
	take()
	if want := []string{"a1", "b2", "c1", "a2", "c2", "a4", "b1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !q.empty() || len(q.flows) != 0 || q.others(nil) {
		t.Errorf("left behind: %v", q.flows)
	}
}
