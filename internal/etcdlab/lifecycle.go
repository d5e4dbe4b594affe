package etcdlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
)

// Freeze stops member i as a whole, without its knowing: its connections stay open
// and nothing comes over them. When it returns, no thread of it runs until Thaw.
// Kill ends a frozen member as well.
func (c *Processes) Freeze(i int) error { return c.do(i, "freeze", (*process).freeze) }

// Thaw ends a Freeze.
func (c *Processes) Thaw(i int) error { return c.do(i, "thaw", (*process).thaw) }

func (c *Processes) do(i int, what string, act func(*process) error) error {
	c.mu.Lock()
	p := c.running[i]
	c.mu.Unlock()
	err := error(os.ErrProcessDone)
	if p != nil {
		err = act(p)
	}
	if err != nil {
		return fmt.Errorf("etcdlab: member %d: %s: %w", i, what, err)
	}
	return nil
}

// Kill ends the members at the same time, in the middle of whatever they do, and
// returns when they have ended. What a member wrote stays, as far as it told the
// operating system. A member that does not run is left alone.
func (c *Processes) Kill(members ...int) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return c.each(members, func(i int) error { return c.end(ctx, i, os.Kill) })
}

// Stop asks the members to end in order, each handing on its leadership, and returns
// when they have ended. A frozen member does not before it is thawed. A member that
// does not run is left alone.
func (c *Processes) Stop(ctx context.Context, members ...int) error {
	return c.each(members, func(i int) error { return c.end(ctx, i, syscall.SIGTERM) })
}

// Start starts members that do not run, with their data, and returns when they serve
// clients, which takes a leader: start as many as a quorum needs in one call. When
// ctx ends first, they go on starting.
func (c *Processes) Start(ctx context.Context, members ...int) error {
	started := make([]*process, len(members))
	for n, i := range members {
		p, err := c.spawn(i)
		if err != nil {
			return fmt.Errorf("etcdlab: start of member %d: %w", i, err)
		}
		started[n] = p
	}
	return c.awaitReady(ctx, started)
}

// each runs act for the members at the same time.
func (c *Processes) each(members []int, act func(i int) error) error {
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for n, i := range members {
		wg.Go(func() { errs[n] = act(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Processes) awaitReady(ctx context.Context, started []*process) error {
	for _, p := range started {
		if err := c.awaitReport(ctx, p, "ready for clients", func(r report) bool { return r.Ready }); err != nil {
			return err
		}
	}
	return nil
}

// awaitReport waits until ok holds for the last report of p.
func (c *Processes) awaitReport(ctx context.Context, p *process, what string, ok func(report) bool) error {
	err := await(ctx, &c.mu, &c.moved, func() (bool, error) {
		if ok(p.seen) {
			return true, nil
		}
		select {
		case <-p.exited:
			// Told now, so Close need not tell it again.
			c.crashes = slices.DeleteFunc(c.crashes, func(err error) bool { return err == p.crash })
			return false, cmp.Or(p.crash, errors.New("it was told to end"))
		default:
			return false, nil
		}
	})
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w; its log ends:\n%s", err, logEnd(c.Log(p.member)))
	}
	if err != nil {
		return fmt.Errorf("etcdlab: member %d is not %s: %w", p.member, what, err)
	}
	return nil
}
