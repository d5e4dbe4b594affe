package revision

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/quick"
)

// TestRatchetOneByOne: after any sequence of raises the ratchet holds its
// maximum, and each Raise tells whether it moved.
func TestRatchetOneByOne(t *testing.T) {
	property := func(revisions []uint64) bool {
		var (
			ratchet Ratchet
			highest uint64
		)
		for _, revision := range revisions {
			if ratchet.Raise(revision) != (revision > highest) {
				return false
			}
			highest = max(highest, revision)
			if ratchet.Load() != highest {
				return false
			}
		}
		return true
	}
	if err := quick.Check(property, nil); err != nil {
		t.Fatal(err)
	}
}

// TestRatchetConcurrent: raises from many goroutines end at the maximum, each
// step up is claimed by one of them only, and nobody sees the ratchet go down,
// or below what it raised it to.
func TestRatchetConcurrent(t *testing.T) {
	const raisers, each = 8, 2000
	var (
		ratchet Ratchet
		wg      sync.WaitGroup
		mu      sync.Mutex
		highest uint64
		claimed = map[uint64]int{}
	)
	for range raisers {
		wg.Go(func() {
			var last, own uint64
			moved := make([]uint64, 0, each)
			for i := range uint64(each) {
				// Close together, so that the goroutines meet at each value.
				revision := i + rand.Uint64N(4)
				own = max(own, revision)
				if ratchet.Raise(revision) {
					moved = append(moved, revision)
				}
				seen := ratchet.Load()
				if seen < last || seen < revision {
					t.Errorf("loaded %d after %d was loaded and %d raised", seen, last, revision)
					return
				}
				last = seen
			}
			mu.Lock()
			defer mu.Unlock()
			highest = max(highest, own)
			for _, revision := range moved {
				claimed[revision]++
			}
		})
	}
	wg.Wait()
	if got := ratchet.Load(); got != highest {
		t.Errorf("ended at %d, want the maximum %d", got, highest)
	}
	for revision, times := range claimed {
		if times != 1 {
			t.Errorf("%d goroutines claim to have raised it to %d", times, revision)
		}
	}
}
