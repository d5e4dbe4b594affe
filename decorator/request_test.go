package decorator

import (
	"errors"
	"testing"
)

// TestRequestReadsFloors: on behalf of a watch whose answers stand still, so that a source
// of several members sees which are cut off, and of no other.
func TestRequestReadsFloors(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		for _, standing := range []bool{false, true} {
			r.feed.standing.Store(standing)
			before := r.floorReads()
			if err := r.feed.request.Advance(t.Context(), 1); err != nil {
				t.Error(err)
			}
			settled()
			if got := r.floorReads() - before; (got > 0) != standing {
				t.Errorf("standing is %v: %d reads", standing, got)
			}
		}
	})
}

// TestRequestNeedsItsWatch: while the stream of a watch is away nothing is asked on others
// of the storage, where a progress.Watcher was seen; and where there is none the storage is
// asked.
func TestRequestNeedsItsWatch(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.feed.watch.Closed()
		before := r.cached.Calls()
		if err := r.feed.request.Advance(t.Context(), 1); !errors.Is(err, errNoWatch) {
			t.Errorf("got %v, want %v", err, errNoWatch)
		}
		if after := r.cached.Calls(); after.Progress != before.Progress || after.Kicks != before.Kicks {
			t.Errorf("calls were %+v and are %+v", before, after)
		}
	})
	bubble(t, setup{untapped: true}, func(t *testing.T, r *rig) {
		before := r.cached.Calls().Progress
		if err := r.feed.request.Advance(t.Context(), 1); err != nil || r.cached.Calls().Progress != before+1 {
			t.Errorf("%v, after %d requests", err, r.cached.Calls().Progress-before)
		}
	})
}
