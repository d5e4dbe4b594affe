package decorator

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/guard"
)

const (
	// defaultPulse is a write a minute. Slower, a restore that lost more goes unseen;
	// faster, freshness.MaxChain links reach back less far.
	defaultPulse = time.Minute
	// floorPulse is how old the newest floor gets while nobody reads: so long may a
	// restore, which no read is there to see, be answered to those who name a revision.
	floorPulse = 10 * time.Second
	// failedPulse is how soon a floor that could not be read is tried again: by it a
	// backend is known to be back while nobody reads.
	failedPulse = time.Second
)

// Witness is a Source that can add to the proof of its backend's history; see
// freshness.Sentinel.
type Witness interface {
	// Append must return when ctx ends.
	Append(ctx context.Context) error
}

// pulse reads floors while nobody else does, and appends to the witness.
type pulse struct {
	backend  *Backend
	appended error // how the last append went
	cancel   context.CancelFunc
	done     chan struct{}
}

// startPulse returns nil where there is to be none.
func startPulse(b *Backend) *pulse {
	if b.cfg.Pulse < 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pulse{backend: b, cancel: cancel, done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// stop returns when the pulse has ended.
func (p *pulse) stop() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

func (p *pulse) run(ctx context.Context) {
	defer close(p.done)
	interval := p.backend.cfg.Pulse
	appendAt := time.Now().Add(interval)
	for {
		if !time.Now().Before(appendAt) {
			p.append(ctx)
			appendAt = time.Now().Add(interval)
		}
		select {
		case <-time.After(min(p.read(ctx), time.Until(appendAt))):
		case <-ctx.Done():
			return
		}
	}
}

// read sees to a recent floor, and returns how long that will do.
func (p *pulse) read(ctx context.Context) time.Duration {
	age := min(floorPulse, p.backend.cfg.Pulse)
	if p.backend.Mode() == ModeOff {
		return age
	}
	floor, err := p.backend.floors.Within(ctx, age)
	if err != nil {
		return failedPulse // it is counted
	}
	return age - time.Since(floor.SentAt) + time.Millisecond // as Within takes what is just so old
}

func (p *pulse) append(ctx context.Context) {
	witness, ok := p.backend.cfg.Source.(Witness)
	if !ok || p.backend.Mode() == ModeOff {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.backend.cfg.MaxWait)
	defer cancel()
	err := guard.Call(func() error { return witness.Append(ctx) })
	if err != nil && p.appended == nil {
		klog.ErrorS(err, "The witness of a backend's history could not be written; until it is, a restore may go unseen", "backend", p.backend.cfg.Name, "stack", guard.Stack(err))
	}
	p.appended = err
}
