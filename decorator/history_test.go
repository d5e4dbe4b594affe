package decorator

import (
	"sync"
	"testing"
	"time"
)

// TestHistory: intervals come oldest first, quiet ones too, and an old one does not
// come back when the ring has gone round.
func TestHistory(t *testing.T) {
	var h history
	start := time.Unix(1000, 0)
	h.waitedFor(start, 10*time.Millisecond)
	h.waitedFor(start.Add(time.Second), 30*time.Millisecond)
	h.floorRead(start, 2)
	h.floorRead(start.Add(6*time.Second), 7)

	got := h.intervals(start.Add(6 * time.Second))
	if len(got) != historyLength || !got[historyLength-2].Start.Equal(start) {
		t.Fatalf("%d intervals, the last but one of %v", len(got), got[historyLength-2].Start)
	}
	want := Interval{Start: start.UTC(), FloorReads: 1, Callers: 2, Waits: 2, MeanWaitSeconds: .02, MaxWaitSeconds: .03}
	if got[historyLength-2] != want {
		t.Errorf("got %+v, want %+v", got[historyLength-2], want)
	}
	want = Interval{Start: start.Add(historyInterval).UTC(), FloorReads: 1, Callers: 7}
	if got[historyLength-1] != want {
		t.Errorf("got %+v, want %+v", got[historyLength-1], want)
	}
	later := start.Add(historyLength * historyInterval)
	if got := h.intervals(later)[historyLength-1]; got.Waits != 0 {
		t.Errorf("five minutes later there are %+v", got)
	}
	h.waitedFor(later, time.Second)
	if got := h.intervals(later)[historyLength-1]; got.Waits != 1 || got.MeanWaitSeconds != 1 || got.FloorReads != 0 {
		t.Errorf("the old interval is still in the new one: %+v", got)
	}
}

// TestHistoryTakesNoLockAndNoMemory is what the way of every read may cost.
func TestHistoryTakesNoLockAndNoMemory(t *testing.T) {
	var h history
	now := time.Unix(1000, 0)
	if n := testing.AllocsPerRun(100, func() { h.waitedFor(now, time.Second); h.floorRead(now, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	h = history{}
	h.at(now) // begins the interval
	var adding sync.WaitGroup
	for n := range 4 {
		adding.Go(func() {
			for i := range 1000 {
				h.waitedFor(now, time.Duration(n*1000+i))
			}
		})
	}
	adding.Wait()
	got := h.intervals(now)[historyLength-1]
	if got.Waits != 4000 || got.MaxWaitSeconds != time.Duration(3999).Seconds() {
		t.Errorf("got %+v, want 4000 waits and the longest", got)
	}
}

func BenchmarkHistory(b *testing.B) {
	var h history
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for now := time.Now(); pb.Next(); {
			h.waitedFor(now, time.Millisecond)
		}
	})
}
