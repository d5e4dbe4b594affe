package probe

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rvfloor/rvfloor/decorator/strategy"
)

// tally counts the trials of one property.
type tally struct {
	mu       sync.Mutex
	trials   int
	failures int
	example  string // of the first failure
	err      error  // why a trial could not be made, the first time
	took     []time.Duration
}

// trial counts one, and keeps what the first failure looked like.
func (t *tally) trial(ok bool, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trials++
	if ok {
		return
	}
	if t.failures++; t.failures == 1 {
		t.example = fmt.Sprintf(format, args...)
	}
}

// broken notes that a trial could not be made.
func (t *tally) broken(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *tally) timed(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, d)
}

func (t *tally) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures > 0
}

// finding is no after a failure, yes after as many trials as are enough, else unsure.
// seen says what was counted, with the failures and the trials filled in.
func (t *tally) finding(property string, enough int, seen string) Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := Finding{Property: property, Trials: t.trials, Failures: t.failures, Seen: fmt.Sprintf(seen, t.failures, t.trials), Example: t.example}
	switch {
	case t.failures > 0:
		f.Verdict = strategy.VerdictNo
	case t.trials >= enough:
		f.Verdict = strategy.VerdictYes
		f.Missed = math.Pow(1-rareFault, float64(t.trials))
	default:
		if t.trials == 0 {
			f.Seen = "it was not looked at"
		} else {
			f.Seen += fmt.Sprintf("; it takes %d", enough)
		}
		if t.err != nil {
			f.Seen += ": " + t.err.Error()
		}
	}
	if len(t.took) > 0 {
		slices.Sort(t.took)
		f.MedianMillis = millis(t.took[len(t.took)/2])
		f.LongestMillis = millis(t.took[len(t.took)-1])
	}
	return f
}

func millis(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
