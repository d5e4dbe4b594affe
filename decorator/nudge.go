package decorator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/guard"
	"github.com/rvfloor/rvfloor/internal/joinnext"
	"github.com/rvfloor/rvfloor/internal/monotonic"
	"github.com/rvfloor/rvfloor/internal/revision"
)

// Nudger is a Source that can make its backend write a revision, for one whose progress
// stands still until it does; see freshness.Sentinel.
type Nudger interface {
	// Nudge must return when ctx ends.
	Nudge(ctx context.Context) error
}

// nudge is StrategyNudge: a request, and a write before it where the one before was
// answered below what is waited for.
type nudge struct {
	request strategy
	nudges  *nudges
	below   func() bool // an answer has come since, and is too low
}

// Advance is strategy's.
func (n nudge) Advance(ctx context.Context, target uint64) error {
	if n.below() {
		_ = n.nudges.write(ctx, target) // it is counted, and the request may do without
	}
	return n.request.Advance(ctx, target)
}

const (
	// nudgeEach is how often a backend is nudged of which it is not known that it helps: a
	// follower that is cut off stands still whatever is written.
	nudgeEach = time.Second
	// nudgeTimeout bounds one write.
	nudgeTimeout = time.Second
)

var errNoNudger = errors.New("decorator: Config.Source is no Nudger; for etcd use freshness.NewSentinel")

// nudges are the writes of one backend. Who wants one while another is on its way shares
// the next, which is not made where the one before was sent late enough for all of them.
type nudges struct {
	backend *Backend
	writes  *joinnext.Group[struct{}]
	marks   atomic.Pointer[nudgeMarks] // of the newest history that there was a nudge in
	sent    monotonic.Atomic           // when the newest was
	helped  atomic.Bool                // replies came up to what a write was made for
}

// nudgeMarks are revisions of one history of the backend.
type nudgeMarks struct {
	epoch   *freshness.Epoch
	wanted  revision.Ratchet // the highest target that a write was wanted for
	tried   revision.Ratchet // what wanted was when the newest write was sent
	covered revision.Ratchet // likewise, of the newest that was acknowledged
}

// now are those of the present history.
func (n *nudges) now() *nudgeMarks {
	present, epoch := n.marks.Load(), n.backend.floors.Epoch()
	if present != nil && present.epoch == epoch {
		return present
	}
	n.marks.CompareAndSwap(present, &nudgeMarks{epoch: epoch})
	return n.marks.Load()
}

func newNudges(b *Backend) *nudges {
	n := &nudges{backend: b}
	n.writes = joinnext.New(func(ctx context.Context, _ joinnext.Call) (struct{}, error) {
		return struct{}{}, n.send(ctx)
	}, joinnext.Config{Timeout: nudgeTimeout})
	return n
}

// write returns when a write was acknowledged that was sent after target had been read, or
// at once where there is to be none yet.
func (n *nudges) write(ctx context.Context, target uint64) error {
	if !n.due(target) {
		return nil
	}
	n.now().wanted.Raise(target)
	_, err := n.writes.Do(ctx, nil)
	return err
}

// due says whether target calls for another write: once, and each nudgeEach; and where it
// is not known that writes help, each nudgeEach alone.
func (n *nudges) due(target uint64) bool {
	fresh := target > n.now().covered.Load() && (n.helped.Load() || n.backend.chooser.nudgesHelp())
	return fresh || n.idle() >= nudgeEach
}

// answered is called for each answer to a request for progress.
func (n *nudges) answered(revision uint64) {
	if covered := n.now().covered.Load(); covered != 0 && revision >= covered {
		n.helped.Store(true)
	}
}

// idle is how long ago the newest write was sent.
func (n *nudges) idle() time.Duration { return n.sent.Load().Since() }

func (n *nudges) send(ctx context.Context) error {
	now := n.now()
	wanted := now.wanted.Load()
	if !n.due(wanted) {
		return nil // the write before was for these as well
	}
	n.sent.Store(monotonic.Now())
	now.tried.Raise(wanted)
	nudger, ok := n.backend.cfg.Source.(Nudger)
	err := errNoNudger
	if ok {
		err = guard.Call(func() error { return nudger.Nudge(ctx) })
	}
	n.backend.nudged(err)
	if err == nil {
		now.covered.Raise(wanted)
	}
	return err
}
