package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// writers at once: kine on PostgreSQL lost events of 12 of 28 clients with as many, and
	// none of 46 with four.
	writers = 16
	// A round is so many writes of each writer.
	writesEach = 2
	// minRounds are made however long they take, maxRounds bound the time that followers take
	// to be judged.
	minRounds, maxRounds = 3, 40
	// followersEach begin in each round.
	followersEach = 4
	// folder of what is written in rounds.
	busy = "w/"
	// endMarks are written after the rounds: a watch that has an event of one has all events
	// before it, or never gets them.
	endMarks = 3
)

// concurrently makes rounds of concurrent writes. What was written is read
// back at once. Beside them ranges are filtered, progress is asked for on open watches, and clients begin to list and watch.
func (p *probe) concurrently(ctx context.Context) error {
	live := make([]*watch, 0, len(p.clients))
	for _, client := range p.clients {
		w, err := openWatch(ctx, client, p.dir+busy, 0)
		if err != nil {
			return err
		}
		defer w.close()
		defer p.judge(w)
		live = append(live, w)
	}
	var followers []*follower
	defer func() {
		for _, f := range followers {
			f.watch.close()
		}
	}()
	ranges := newProver(p)
	until := time.Now().Add(p.effort)
	for round := 0; round < maxRounds && (round < minRounds || time.Now().Before(until)); round++ {
		more, err := p.round(ctx, live, ranges)
		followers = append(followers, more...)
		if err != nil {
			return err
		}
		// Progress has stood still after a burst, until the next write.
		if err := p.stands(ctx, live[round%len(live)]); err != nil {
			return err
		}
	}
	return errors.Join(p.judgeFollowers(ctx, followers), ranges.judge())
}

// round is one.
func (p *probe) round(ctx context.Context, live []*watch, ranges *prover) (followers []*follower, err error) {
	var writing, reading sync.WaitGroup
	var errs errorList
	done := make(chan struct{})
	asking, stop := context.WithCancel(ctx)
	defer stop()
	for i := range writers {
		writing.Go(func() {
			for n := range writesEach {
				errs.add(p.writeAndRead(ctx, i, n))
			}
		})
	}
	if !p.answered.failed() {
		for _, w := range live {
			reading.Go(func() { hammer(asking, w) })
		}
	}
	reading.Go(func() { ranges.run(ctx, done) })
	for i := range followersEach {
		reading.Go(func() {
			f, err := p.follow(ctx, p.client(i))
			errs.add(err)
			if err == nil {
				errs.mu.Lock()
				defer errs.mu.Unlock()
				followers = append(followers, f)
			}
		})
	}
	writing.Wait()
	close(done)
	stop()
	reading.Wait()
	return followers, errs.first()
}

// writeAndRead writes a writer's key and reads it at once through another client, before
// what follows the log of the backend is there. In turn with a key that is not there.
func (p *probe) writeAndRead(ctx context.Context, i, n int) error {
	name := fmt.Sprintf("%s%d", busy, i)
	rev, err := p.put(ctx, p.client(i+n), name)
	if err != nil {
		return err
	}
	other := p.client(i + n + 1)
	if (i+n)%2 == 0 {
		if _, err := p.readFloor(ctx, other, missingKey, &p.missing); err != nil {
			return err
		}
	}
	return p.readBack(ctx, other, name, rev)
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// errorList keeps the first error of several goroutines.
type errorList struct {
	mu  sync.Mutex
	err error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

func (l *errorList) first() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
