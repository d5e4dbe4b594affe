package faultlab

import (
	"context"
	"sync"
	"time"
)

// Phase is what was answered during one fault, or without any.
type Phase struct {
	Name string
	// Reads that were answered, those of them that were older than a write acknowledged
	// before they began, and those that failed.
	Answered, TooOld, Failed int
	// Refused are those of the failures that were LISTs and GETs answered by 429.
	Refused int
	Errors  map[string]int // the failures, by kind
	// Overrun is by how much a read outlived its deadline at most; 0: none reached it.
	Overrun time.Duration
}

// Deadlines are the reads that reached their deadline.
type Deadlines struct {
	Reached int
	// Missed are those that ended later than 50 ms after it, and later than 5 times the
	// lateness of an idle timer in the same phase; Allowed is the most that this came to.
	Missed  int
	Allowed time.Duration
}

// tally counts by phase. linear judges; this is for the table.
type tally struct {
	mu        sync.Mutex
	phases    []Phase
	late      []time.Duration // by how much reads outlived their deadlines
	idle      time.Duration   // the lateness of an idle timer, at most
	deadlines Deadlines
}

// phase begins one; what ends from now on counts to it.
func (t *tally) phase(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked()
	t.phases = append(t.phases, Phase{Name: name, Errors: map[string]int{}})
}

// settleLocked holds the deadlines of a phase against the timer of the same phase.
func (t *tally) settleLocked() {
	t.deadlines.Reached += len(t.late)
	allowed := max(50*time.Millisecond, 5*t.idle)
	for _, late := range t.late {
		now := &t.phases[len(t.phases)-1]
		now.Overrun = max(now.Overrun, late)
		t.deadlines.Allowed = max(t.deadlines.Allowed, allowed)
		if late > allowed {
			t.deadlines.Missed++
		}
	}
	t.late, t.idle = nil, 0
}

func (t *tally) count(add func(*Phase)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.phases); n > 0 {
		add(&t.phases[n-1])
	}
}

func (t *tally) failed(kind string) {
	t.count(func(p *Phase) {
		p.Failed++
		p.Errors[kind]++
	})
}

func (t *tally) refused() { t.count(func(p *Phase) { p.Refused++ }) }

func (t *tally) tooOld() { t.count(func(p *Phase) { p.TooOld++ }) }

func (t *tally) answered(tooOld bool) {
	t.count(func(p *Phase) {
		p.Answered++
		if tooOld {
			p.TooOld++
		}
	})
}

func (t *tally) outlived(late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = append(t.late, late)
}

// idleTimer measures how late an idle timer is, until ctx ends.
func (t *tally) idleTimer(ctx context.Context) {
	const wait = 10 * time.Millisecond
	for {
		due := time.Now().Add(wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		late := time.Since(due)
		t.mu.Lock()
		t.idle = max(t.idle, late)
		t.mu.Unlock()
	}
}

// result sums up the phases of the same name, in the order of their first.
func (t *tally) result() ([]Phase, Deadlines) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked()
	return Sum(t.phases), t.deadlines
}

// Sum adds up the phases of the same name, in the order of their first.
func Sum(phases []Phase) (sum []Phase) {
	at := map[string]int{}
	for _, p := range phases {
		i, ok := at[p.Name]
		if !ok {
			i = len(sum)
			at[p.Name] = i
			sum = append(sum, Phase{Name: p.Name, Errors: map[string]int{}})
		}
		sum[i].Answered += p.Answered
		sum[i].TooOld += p.TooOld
		sum[i].Failed += p.Failed
		sum[i].Refused += p.Refused
		sum[i].Overrun = max(sum[i].Overrun, p.Overrun)
		for kind, n := range p.Errors {
			sum[i].Errors[kind] += n
		}
	}
	return sum
}
