package linear

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// whole is the model of the whole store that porcupine decides with: the state is
// the newest revision. What an answer must be at a revision is worked out by the
// simulated world, not by what is tested.
func (w *world) whole() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, input, _ any) (bool, any) {
			now, c := state.(uint64), input.(*call)
			if c.kind == write {
				return c.applied == now+1, c.applied
			}
			should := *c
			w.tell(&should, now)
			return slices.Equal(should.items, c.items) && (c.kind == get || c.revision == now), now
		},
	}
}

func (w *world) history() (history []porcupine.Operation) {
	for _, c := range w.calls {
		end := c.end
		if c.kind == write && c.outcome == open {
			end = forever
		}
		if c.kind == write && c.applied > 0 || c.kind != write && c.outcome == done {
			history = append(history, porcupine.Operation{Input: c, Call: c.begin, Return: end})
		}
	}
	return history
}

// disturb moves a few operations in time, and answers to other revisions, so that the
// run may be right or wrong.
func (w *world) disturb() {
	for range w.rng.IntN(6) {
		c := w.calls[w.rng.IntN(len(w.calls))]
		switch w.rng.IntN(5) {
		case 0, 1:
			shift := w.rng.Int64N(60)
			c.begin, c.end = c.begin+shift, c.end+shift
		case 2, 3:
			if c.kind != write && c.outcome == done {
				w.tell(c, min(w.now(), uint64(max(0, int64(c.revision)+w.rng.Int64N(5)-2))))
			}
		default:
			if len(c.items) > 0 {
				c.items = c.items[1:]
			}
		}
	}
}

// small is what porcupine can search as a whole.
var small = habits{clients: 4, ops: 6, keys: []string{"/a/1", "/a/2", "/b/1"}, writes: 0.5, strict: true, slow: 30}

// agree compares our verdict on a small run, right or wrong, with that of a search
// that knows nothing of how we decide, and returns it.
func agree(t *testing.T, seed uint64) bool {
	w := newWorld(seed)
	w.run(small, 0)
	w.disturb()
	should := porcupine.CheckOperationsTimeout(w.whole(), w.history(), time.Minute)
	report := w.play(t, Config{}, seed%2 == 0)
	if should == porcupine.Unknown || (len(report.Counts) == 0) != (should == porcupine.Ok) {
		t.Fatalf("seed %d: porcupine says %v, and we: %v", seed, should, report.Err())
	}
	return should == porcupine.Ok
}

func TestAgreesWithPorcupine(t *testing.T) {
	verdicts := map[bool]int{}
	for seed := range uint64(10 * worlds) {
		verdicts[agree(t, seed)]++
	}
	if verdicts[true] < 2*worlds || verdicts[false] < 2*worlds {
		t.Errorf("too few of one verdict: %v", verdicts)
	}
}

func FuzzAgreesWithPorcupine(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { agree(t, seed) })
}
