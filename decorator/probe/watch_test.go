package probe

import "testing"

// TestCatchUp: events that never came are told from those that came after progress.
func TestCatchUp(t *testing.T) {
	history := []write{{key: "a/1", revision: 5}, {key: "a/2", revision: 7}, {key: "a/3", revision: 9}}
	w := &watch{events: map[int64]bool{5: true, 7: true}, newest: 7, through: 8}
	if missed := w.missing(history); missed != nil || w.passedOver(9) {
		t.Errorf("missed %v, %d overtaken of what may still come", missed, w.overtaken)
	}
	w.through = 9
	if !w.passedOver(9) || w.overtaken != 1 || w.example == "" {
		t.Errorf("progress at 9 without the event at 9: %d overtaken, %q", w.overtaken, w.example)
	}
	w.events = map[int64]bool{5: true, 9: true}
	w.newest = 9
	if missed := w.missing(history); missed == nil || missed.revision != 7 || w.passedOver(9) {
		t.Errorf("got %v, want the write at 7", missed)
	}
}
