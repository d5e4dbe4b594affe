package progress

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// aheadRig is a rig whose backend answers kicks after a round trip of 1 ms, and
// reads that are gated on a floor which takes as long to read. Other resources are
// written to all the time, so that a read finds the cache behind.
type aheadRig struct {
	*rig
	revision atomic.Uint64 // of the backend
	polled   atomic.Uint64 // up to where kine has polled; a floor read wakes its poll
	kine     bool
	quiet    bool // nobody writes
}

func newAheadRig(t *testing.T, c *Coordinator) *aheadRig {
	r := &aheadRig{rig: newRig(t, c)}
	r.revision.Store(1)
	r.polled.Store(1)
	r.onKick = func(context.Context) error {
		reached := r.revision.Load()
		if r.kine {
			reached = r.polled.Load()
		}
		time.AfterFunc(ms, func() { r.Replied(reached); r.Applied(reached) })
		return nil
	}
	r.Applied(1)
	return r
}

// read is one read. It tells how long it took, and how many kicks it sent before
// and after it knew its floor.
func (r *aheadRig) read(t *testing.T) (took time.Duration, before, after int) {
	t.Helper()
	if !r.quiet {
		r.revision.Add(1)
	}
	began, kicks := time.Now(), len(r.kicked())
	read := r.Ahead()
	before = len(r.kicked()) - kicks
	advance(ms)
	floor := r.revision.Load()
	r.polled.Store(floor)
	if err := read.Wait(t.Context(), floor); err != nil {
		t.Fatal(err)
	}
	took = time.Since(began)
	if got := r.Revision(); got < floor {
		t.Fatalf("the read returned at %d, its floor is %d", got, floor)
	}
	return took, before, len(r.kicked()) - kicks - before
}

// TestAheadWhereItPays: after some reads that needed a kick, kicks go out beside the
// floor read, and a read takes one round trip for the two.
func TestAheadWhereItPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig(t, ample())
		ahead := 0
		for i := range 100 {
			took, before, after := r.read(t)
			ahead += before
			if i == 0 && (before != 0 || after != 1 || took != 2*ms) {
				t.Errorf("first read: %v, %d kicks before and %d after the floor; want 2ms, 0, 1", took, before, after)
			}
			if i >= 8 && (before != 1 || after != 0 || took != ms) {
				t.Fatalf("read %d: %v, %d kicks before and %d after the floor; want 1ms, 1, 0", i, took, before, after)
			}
			advance(20 * ms)
		}
		if paid, sent := r.AheadPaid(); paid != uint64(ahead) || sent != uint64(ahead) {
			t.Errorf("paid %d of %d, want %d of %d", paid, sent, ahead, ahead)
		}
		r.wantIdle(t)
	})
}

// TestAheadWhereItDoesNotPay: kine answers with what it had polled before the floor
// read. It is found out soon, and tried again now and then.
func TestAheadWhereItDoesNotPay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig(t, ample())
		r.kine = true
		reads := func(n int) (ahead int) {
			for range n {
				_, before, after := r.read(t)
				if after != 1 {
					t.Fatalf("%d kicks after the floor, want 1", after)
				}
				ahead += before
				advance(20 * ms)
			}
			return ahead
		}
		first := reads(30)
		if first == 0 || first > 8 {
			t.Errorf("%d of the first 30 reads kicked ahead, want some and at most 8", first)
		}
		later := reads(10 * retryAhead)
		if later != 10 {
			t.Errorf("%d of %d reads tried again, want 10", later, 10*retryAhead)
		}
		if paid, sent := r.AheadPaid(); paid != 0 || sent != uint64(first+later) {
			t.Errorf("paid %d of %d, want 0 of %d", paid, sent, first+later)
		}

		// The backend was replaced by one where it pays: found by the tries.
		r.kine = false
		for range 20 * retryAhead {
			r.read(t)
			advance(20 * ms)
		}
		if took, before, after := r.read(t); before != 1 || after != 0 || took != ms {
			t.Errorf("%v, %d kicks before and %d after the floor; want 1ms, 1, 0", took, before, after)
		}
		paid, sent := r.AheadPaid()
		if missed := sent - paid; missed != uint64(first+later) {
			t.Errorf("paid %d of %d, want all but %d", paid, sent, first+later)
		}
	})
}

// TestAheadWhereNobodyNeedsIt: a cache that is fresh by itself is not asked.
func TestAheadWhereNobodyNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig(t, ample())
		needed := 0
		for range 20 {
			_, before, _ := r.read(t)
			needed += before
			advance(20 * ms)
		}
		r.quiet = true
		unneeded := 0
		for range 1000 {
			_, before, after := r.read(t)
			unneeded += before + after
			advance(20 * ms)
		}
		if unneeded > 12 {
			t.Errorf("%d kicks in 1000 reads that needed none", unneeded)
		}
		if unneeded == 0 {
			t.Error("it was not tried")
		}
		if paid, sent := r.AheadPaid(); paid != uint64(needed) || sent != uint64(needed) {
			t.Errorf("paid %d of %d, want %d of the kicks that reads needed", paid, sent, needed)
		}
	})
}

// TestAheadSharesTheKick: reads that begin while one is under way send none.
func TestAheadSharesTheKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig(t, ample())
		for range 20 {
			r.read(t)
			advance(20 * ms)
		}
		r.revision.Add(1)
		before := len(r.kicked())
		var reads []Ahead
		for range 100 {
			reads = append(reads, r.Ahead())
		}
		done := make(chan error, len(reads))
		for _, read := range reads {
			go func() { done <- read.Wait(t.Context(), r.revision.Load()) }()
		}
		advance(ms)
		for range reads {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := len(r.kicked()) - before; n != 1 {
			t.Errorf("%d kicks for 100 reads, want 1", n)
		}
	})
}

// TestAheadHeldBackByTheBudget: a kick that had to queue paid if it alone reached
// the floor, and did not if another was needed.
func TestAheadHeldBackByTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := NewCoordinator(Config{Rate: 20, Burst: 1}) // 50 ms a token
		r := newAheadRig(t, budget)
		r.pays.need.Store(scoreFull)
		other := newRig(t, budget)
		other.onKick = func(context.Context) error { other.Applied(other.Revision() + 1); return nil }

		other.wait(t.Context(), 1) // takes the token
		r.revision.Add(1)
		read := r.Ahead()
		r.wantKicks(t)
		if err := read.Wait(t.Context(), r.revision.Load()); err != nil {
			t.Fatal(err)
		}
		if n := len(r.kicked()); n != 1 {
			t.Fatalf("%d kicks, want 1", n)
		}
		if paid, sent := r.AheadPaid(); paid != 1 || sent != 1 {
			t.Errorf("paid %d of %d, want 1 of 1", paid, sent)
		}

		r.kine = true
		advance(time.Second)
		other.wait(t.Context(), 2)
		r.polled.Store(r.revision.Load())
		r.revision.Add(1)
		read = r.Ahead()
		time.AfterFunc(60*ms, func() { r.polled.Store(r.revision.Load()) })
		if err := read.Wait(t.Context(), r.revision.Load()); err != nil {
			t.Fatal(err)
		}
		if paid, sent := r.AheadPaid(); paid != 1 || sent != 2 {
			t.Errorf("paid %d of %d, want 1 of 2", paid, sent)
		}
	})
}

// TestAheadFails: a read that fails teaches nothing and leaves nothing.
func TestAheadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAheadRig(t, ample())
		r.pays.need.Store(scoreFull)
		r.onKick = nil
		read := r.Ahead()
		r.wantKicks(t, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
		defer cancel()
		if err := read.Wait(ctx, 10); err != context.DeadlineExceeded {
			t.Fatalf("Wait returned %v", err)
		}
		advance(time.Second)
		r.wantIdle(t)
		r.wantKicks(t, 0)
		if _, sent := r.AheadPaid(); sent != 0 || r.pays.need.Load() != scoreFull || r.pays.miss.Load() != 0 {
			t.Errorf("learned from a read that failed: sent %d, need %d, miss %d", sent, r.pays.need.Load(), r.pays.miss.Load())
		}
		// One that never waits: its floor could not be read.
		r.Ahead()
		advance(time.Second)
		r.wantIdle(t)
		r.wantKicks(t, 0, 1005*ms)
	})
}
