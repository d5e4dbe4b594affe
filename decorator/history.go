package decorator

import (
	"sync/atomic"
	"time"
)

const (
	// historyInterval is fine enough to see a short stall, and historyLength of them
	// are the five minutes that somebody who was called to look will ask about.
	historyInterval = 5 * time.Second
	historyLength   = 60
)

// history counts what happened in the last minutes. It is written on the way of
// every read, so it takes no lock: what is added in the moment in which an interval
// begins may be lost, which a chart does not show.
type history struct {
	ring [historyLength]interval
}

type interval struct {
	number         atomic.Int64 // since 1970
	reads, callers atomic.Uint64
	waits          atomic.Uint64
	waited         atomic.Int64 // nanoseconds of all waits
	longest        atomic.Int64
}

func numberOf(t time.Time) int64 { return t.UnixNano() / int64(historyInterval) }

func (h *history) at(now time.Time) *interval {
	number := numberOf(now)
	i := &h.ring[number%historyLength]
	if old := i.number.Load(); old != number && i.number.CompareAndSwap(old, number) {
		i.reads.Store(0)
		i.callers.Store(0)
		i.waits.Store(0)
		i.waited.Store(0)
		i.longest.Store(0)
	}
	return i
}

// floorRead adds a revision read that so many callers shared.
func (h *history) floorRead(now time.Time, callers int) {
	i := h.at(now)
	i.reads.Add(1)
	i.callers.Add(uint64(callers))
}

// waitedFor adds a read that became fresh.
func (h *history) waitedFor(now time.Time, waited time.Duration) {
	i := h.at(now)
	i.waits.Add(1)
	i.waited.Add(int64(waited))
	for longest := i.longest.Load(); int64(waited) > longest; longest = i.longest.Load() {
		if i.longest.CompareAndSwap(longest, int64(waited)) {
			return
		}
	}
}

// Interval is what happened in five seconds.
type Interval struct {
	Start time.Time `json:"start"`
	// FloorReads were shared by Callers.
	FloorReads uint64 `json:"floorReads"`
	Callers    uint64 `json:"callers"`
	// Waits is how many reads became fresh, and how long that took from their arrival.
	Waits           uint64  `json:"waits"`
	MeanWaitSeconds float64 `json:"meanWaitSeconds"`
	MaxWaitSeconds  float64 `json:"maxWaitSeconds"`
}

// intervals are the last minutes up to now, the oldest first, quiet ones too.
func (h *history) intervals(now time.Time) []Interval {
	all := make([]Interval, 0, historyLength)
	for number := numberOf(now) - historyLength + 1; number <= numberOf(now); number++ {
		out := Interval{Start: time.Unix(0, number*int64(historyInterval)).UTC()}
		if i := &h.ring[number%historyLength]; i.number.Load() == number {
			out.FloorReads, out.Callers, out.Waits = i.reads.Load(), i.callers.Load(), i.waits.Load()
			if out.Waits > 0 {
				out.MeanWaitSeconds = time.Duration(i.waited.Load()).Seconds() / float64(out.Waits)
			}
			out.MaxWaitSeconds = time.Duration(i.longest.Load()).Seconds()
		}
		all = append(all, out)
	}
	return all
}
