package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// kicks are asked one by one, to know how long a reply takes.
	kicks = 5
	// catchUps is how many watches begin in the past. Servers that let progress overtake
	// events were seen to do it on each of 300.
	catchUps = 16
	// idles is how often a store that nobody writes is looked at.
	idles = 5
	// hammerEach is how soon after a reply the next is asked for beside writers: at once would
	// take the time from them.
	hammerEach = time.Millisecond
	// bursts of so many writes at once are made, each on a store that is idle before and
	// after. One process of kine on SQL keeps its revision in memory, and raises it by a
	// compare-and-swap from what it was before each write: where two overlap, the later fails.
	// The loop that follows the log raises it in the same way, one log entry or more at once,
	// and fails where it reads both writes together. Progress then stays below the floor until
	// that process writes again. A heavy write before a burst keeps the loop busy while the
	// burst is committed: three bursts in four then do it, and without one it was one in ten on
	// some machines, one in fifty on others. kine in memory has no such counter. Where a range
	// has etcd's filters, which kine lacks, a few light ones do: each waits for the watch,
	// which may be far.
	bursts, fewBursts, burstWriters = 16, 3, 4
	// heavyBytes is below the limits of etcd (1.5 MiB) and NATS (1 MiB), which kine can run on.
	heavyBytes = 1_000_000
	// watched is the client of the watch that is asked then. Floors come from another.
	watched = 1
	// nudges are written until progress moves.
	nudges = 2
)

// judge counts what came on a watch, at its end.
func (p *probe) judge(w *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.confirmed.trial(w.createdAt > 0, "the confirmation of a watch carried revision %d", w.createdAt)
	if w.replies == 0 {
		return
	}
	p.ordered.trial(w.overtaken == 0, "%s", w.example)
	p.forward.trial(w.backwards == 0, "%d of %d replies on a watch were below the one before", w.backwards, w.replies)
}

// answers asks for progress on a watch that has nothing to catch up. That none comes counts
// where it does not come on another one either: a verdict stays, and a pause does not.
func (p *probe) answers(ctx context.Context) error {
	for i := range 2 {
		w, err := openWatch(ctx, p.client(i), p.dir+"b/", 0)
		if err != nil {
			return err
		}
		defer w.close()
		defer p.judge(w)
		for range kicks {
			began := time.Now()
			if err = w.answer(ctx); err != nil {
				break
			}
			p.answered.trial(true, "")
			p.answered.timed(time.Since(began))
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			return nil
		case i > 0:
			p.answered.trial(false, "two watches that were asked for %v each: %v", patience, err)
		}
	}
	return p.alive(ctx)
}

// alive is nil where the backend answers reads: then what did not come will not.
func (p *probe) alive(ctx context.Context) error {
	_, err := p.readFloor(ctx, p.client(0), floorKey, &p.floor)
	return err
}

// catchUp opens watches from the first revision of the folder and asks for progress as soon
// as they are confirmed, until they have all events that there were.
func (p *probe) catchUp(ctx context.Context) error {
	history, err := p.known()
	if err != nil {
		return err
	}
	from := history[0].revision
	history = slices.DeleteFunc(history, func(w write) bool { return !p.in("a/", w.key) })
	last := history[len(history)-1].revision
	var watches sync.WaitGroup
	errs := make([]error, catchUps)
	for i := range catchUps {
		watches.Go(func() {
			w, err := openWatch(ctx, p.client(i), p.dir+"a/", from)
			if err != nil {
				p.ordered.broken(err)
				errs[i] = err
				return
			}
			defer w.close()
			err = w.kickUntil(ctx, func() bool { return w.newest >= last })
			if err == nil && !p.answered.failed() {
				err = w.answer(ctx) // else it says nothing of the order
			}
			if missed := w.missing(history); missed != nil {
				p.delivered.trial(false, "a watch from revision %d had later events, and never %v", from, missed)
			}
			if w.passedOver(last) || err == nil {
				p.judge(w)
			}
			if err != nil {
				p.ordered.broken(err)
				if !errors.Is(err, errPatience) {
					errs[i] = err
				}
			}
		})
	}
	watches.Wait()
	return errors.Join(errs...)
}

// missing is a write that did not come, though a later one did, or nil.
func (w *watch) missing(history []write) *write {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, write := range history {
		if write.revision < w.newest && !w.events[write.revision] {
			return &write
		}
	}
	return nil
}

// passedOver says whether progress was ahead of an event, be it of one that did not come at
// all.
func (w *watch) passedOver(revision int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest < revision && revision <= w.through {
		w.overtaken++
		w.example = fmt.Sprintf("progress at revision %d, and the event at revision %d did not come at all", w.through, revision)
	}
	return w.overtaken > 0
}

// idle looks whether progress reaches the floor while nobody writes (or others do, which is
// as good), and after a write elsewhere.
func (p *probe) idle(ctx context.Context) error {
	if p.answered.failed() {
		return nil
	}
	w, err := openWatch(ctx, p.client(watched), p.dir+"b/", 0)
	if err != nil {
		return err
	}
	defer w.close()
	defer p.judge(w)
	bursts, heavy := bursts, strings.Repeat("x", heavyBytes)
	if !p.filters.failed() {
		bursts, heavy = fewBursts, ""
	}
	for i := range bursts + idles {
		if i < bursts {
			if heavy != "" && !p.putHeavy(ctx, heavy) {
				heavy = ""
			}
			if err := p.burst(ctx); err != nil {
				return err
			}
		}
		if err := p.stands(ctx, w); err != nil {
			return err
		}
		if p.reaches.failed() {
			break
		}
	}
	for range idles {
		if err := p.nudged(ctx, w); err != nil {
			return err
		}
		if p.moves.failed() {
			return p.alive(ctx)
		}
	}
	return nil
}

// burst writes through all clients at once.
func (p *probe) burst(ctx context.Context) error {
	var writing errgroup.Group
	for i := range burstWriters {
		writing.Go(func() error {
			_, err := p.put(ctx, p.client(i), fmt.Sprintf("burst/%d", i))
			return err
		})
	}
	return writing.Wait()
}

// nudged reads a floor after a burst, writes elsewhere, and asks for progress until the floor
// is reached, writing again where it is not: first through the client of the watch, as an API
// server does, then through the others.
func (p *probe) nudged(ctx context.Context, w *watch) error {
	if err := p.burst(ctx); err != nil {
		return err
	}
	floor, err := p.readFloor(ctx, p.client(0), floorKey, &p.floor)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := range nudges {
		if _, err := p.put(ctx, p.client(watched+i), "nudge"); err != nil {
			return err
		}
		err = w.reach(ctx, floor)
		if !errors.Is(err, errPatience) {
			break
		}
	}
	return p.reached(ctx, w, floor, began, err, &p.moves)
}

// stands reads a floor and asks for progress until it is reached. After one failure it is
// known: the next would take as long.
func (p *probe) stands(ctx context.Context, w *watch) error {
	if p.reaches.failed() || p.answered.failed() {
		return nil
	}
	floor, err := p.readFloor(ctx, p.client(0), floorKey, &p.floor)
	if err != nil {
		return err
	}
	began := time.Now()
	err = w.reach(ctx, floor)
	if errors.Is(err, errPatience) && ctx.Err() == nil {
		err = w.reach(ctx, floor) // a pause of the machine or of the backend is over by now
	}
	return p.reached(ctx, w, floor, began, err, &p.reaches)
}

// reached counts how asking for progress up to a floor ended.
func (p *probe) reached(ctx context.Context, w *watch, floor int64, began time.Time, err error, t *tally) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, errPatience) {
		return fmt.Errorf("progress on a watch: %w", err)
	}
	took := time.Since(began)
	w.mu.Lock()
	through, replies := w.through, w.replies
	w.mu.Unlock()
	t.trial(err == nil, "the floor was %d, and after %v and %d replies progress was at %d", floor, took.Round(time.Millisecond), replies, through)
	if err == nil {
		t.timed(took)
	}
	return nil
}

// hammer asks for progress again and again until ctx ends.
func hammer(ctx context.Context, w *watch) {
	for w.answer(ctx) == nil {
		select {
		case <-time.After(hammerEach):
		case <-ctx.Done():
		}
	}
}

func (p *probe) in(folder, key string) bool {
	return strings.HasPrefix(key, p.dir+folder)
}
