package decorator

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	ways "github.com/rvfloor/rvfloor/decorator/strategy"
	"github.com/rvfloor/rvfloor/internal/guard"
)

// Prober looks at what a backend does, as package probe does. It must return when ctx
// ends. What could not be seen is unsure; an error says that another try may see more. With
// ErrUnreachable in it nothing is decided, and reads wait for that try.
type Prober func(ctx context.Context) (Properties, error)

// ErrUnreachable is in the error of a Prober that saw nothing, as the backend does not
// answer.
var ErrUnreachable = ways.ErrUnreachable

const (
	// retryProbe is how soon a probe that failed is made again: a backend that cannot be
	// reached answers no read meanwhile. Doubling, up to maxRetryProbe.
	retryProbe    = time.Second
	maxRetryProbe = time.Minute
	// doubtProbe is how soon after a probe the backend is looked at again for a fault: it
	// writes, and what it decides is not to flap.
	doubtProbe = time.Minute
)

// prober lets a Prober look: at the start, and again after faults.
type prober struct {
	backend *Backend
	doubts  chan string
	end     context.CancelFunc
	done    sync.WaitGroup
}

// startProber returns nil where nothing is to be found out.
func startProber(b *Backend) *prober {
	if !b.cfg.probes() {
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	p := &prober{backend: b, doubts: make(chan string, 1), end: end}
	p.done.Go(func() { p.run(ctx) })
	return p
}

func (c Config) probes() bool { return c.Probe != nil && c.Strategy == StrategyAuto }

// stop returns when it has ended.
func (p *prober) stop() {
	if p != nil {
		p.end()
		p.done.Wait()
	}
}

// doubt is that the backend did what its Properties do not tell.
func (p *prober) doubt(reason string) {
	if p == nil {
		return
	}
	select {
	case p.doubts <- reason:
	default: // there is a reason already
	}
}

func (p *prober) run(ctx context.Context) {
	retry := retryProbe
	for decided := false; ; {
		began := time.Now()
		var seen Properties
		err := guard.Call(func() (err error) {
			seen, err = p.backend.cfg.Probe(ctx)
			return err
		})
		if ctx.Err() != nil {
			return
		}
		// Half a look is worth less than a whole one of before.
		if err == nil || !decided && !errors.Is(err, ErrUnreachable) {
			p.backend.chooser.told(seen, false)
			decided = true
		}
		wait := retry
		if err == nil {
			retry = retryProbe
			select {
			case reason := <-p.doubts:
				wait = doubtProbe - time.Since(began)
				klog.InfoS("The backend is looked at again", "backend", p.backend.cfg.Name, "reason", reason, "in", wait)
			case <-ctx.Done():
				return
			}
		} else {
			klog.ErrorS(err, "The backend could not be looked at; what is not known of it counts as unsafe", "backend", p.backend.cfg.Name, "again in", wait, "stack", guard.Stack(err))
			retry = min(2*retry, maxRetryProbe)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// lookTime is how long a read waits for the first look at the backend, where that takes
// longer than on an etcd nearby. Then it is answered past the cache, which needs nothing
// that could be seen, once a floor shows that the backend answers at all.
const lookTime = time.Second

// errLooking tells why a read could not be verified yet.
var errLooking = errors.New("it is not known yet what the backend can be relied on for")

// looking reports whether nothing is known of the backend yet.
func (b *Backend) looking() bool { return b.chooser.present().pending != nil }

// choice is how the read's cache is brought to a floor, once that is known.
func (r *read) choice() (*choice, error) {
	c := r.store.backend.chooser
	present := c.present()
	if present.pending == nil {
		return present, nil
	}
	watching := r.verb == verbWatch
	wait, direct := r.store.backend.cfg.MaxWait, r.store.resource.Raw != nil && !watching
	if direct {
		wait = min(wait, lookTime)
	}
	r.held = true
	ctx, cancel := context.WithDeadline(r.ctx, r.arrived.Add(wait))
	defer cancel()
	select {
	case <-present.pending:
		return c.present(), nil
	case <-r.store.stream.Done():
		return nil, newFailure(ErrClosed, nil, watching)
	case <-ctx.Done():
	}
	switch {
	case errors.Is(r.ctx.Err(), context.Canceled):
		return nil, r.ctx.Err()
	case r.ctx.Err() == nil && direct:
		r.blind = true
		return &choice{strategies: []Strategy{StrategyDirect}}, nil
	}
	return nil, newFailure(ErrNotFresh, errLooking, watching)
}
