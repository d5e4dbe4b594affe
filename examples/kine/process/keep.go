package process

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// A kine that has ended is started again at once, or nearly: its callers wait. One that
	// ends again and again, as where its database is gone, is tried less and less often.
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
	// settled is how long it runs before its next end is the first again.
	settled = 10 * time.Second
)

// Keep starts kine again when it has ended, until ctx ends or it is closed. ended hears of
// each end, and of each start that failed, with the time until the next start; serves, when
// it serves again.
func (p *Process) Keep(ctx context.Context, ended func(err error, wait time.Duration), serves func()) {
	wait := firstWait
	for {
		began := time.Now()
		r := p.last()
		select {
		case <-r.exited:
		case <-ctx.Done():
			return
		}
		if p.isClosed() {
			return
		}
		if time.Since(began) > settled {
			wait = firstWait
		}
		err := fmt.Errorf("it ended by itself: %v; its log ends:\n%s", r.cmd.ProcessState, p.logEnd())
		for err != nil {
			ended(err, wait)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			wait = min(2*wait, mostWait)
			if err = p.Restart(ctx); errors.Is(err, errClosed) || ctx.Err() != nil {
				return
			}
		}
		serves()
	}
}
