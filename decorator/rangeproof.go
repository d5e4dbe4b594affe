package decorator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// Prover reads, linearizably and from one snapshot, what has become of the keys of a
// resource since a revision. It must return when ctx ends.
type Prover func(ctx context.Context, since uint64) (Proof, error)

// Proof is what a Prover read.
type Proof struct {
	// Revision is that of the snapshot.
	Revision uint64
	// Newer says that a key was written after since.
	Newer bool
	// Count is how many keys there are.
	Count int64
}

// rangeProof is StrategyRangeProof. Where no key was written since the revision that the
// cache has, and there are as many keys as it has objects, none was deleted either: then
// the cache is what the backend was at the revision of the answer, and is told so.
//
// What was created and deleted again since shows in neither. The watch may still bring it,
// at or below the revision that the cache has by then, and it is not handed on: the state
// is the same without, and a cache must not go back.
type rangeProof struct{ feed *Feed }

const (
	// proofEach is how long at least an event is waited for that a proof has shown to be
	// on its way, doubling to maxProofEach. Each proof costs etcd a range of the resource.
	proofEach    = 20 * time.Millisecond
	maxProofEach = 500 * time.Millisecond
)

// Advance is strategy's. It goes on as long as somebody waits.
func (p rangeProof) Advance(ctx context.Context, _ uint64) error {
	for pause := proofEach; ; pause = min(2*pause, maxProofEach) {
		target, waits := p.feed.stream.Lowest()
		if !waits {
			return nil
		}
		applied := p.feed.fills.next()
		if _, err := p.prove(ctx); err != nil {
			if ctx.Err() == nil {
				p.feed.backend.chooser.failed(target, err.Error(), StrategyRangeProof)
			}
			return err
		}
		select {
		case <-applied:
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// prove tries once to prove that the cache has all up to a revision, and returns that; 0:
// not proven.
func (p rangeProof) prove(ctx context.Context) (revision uint64, err error) {
	f := p.feed
	f.mu.Lock()
	w := f.watch
	f.mu.Unlock()
	since := f.stream.Revision()
	if w == nil || w.inner == nil || since == 0 {
		return 0, nil // it is being filled
	}
	select {
	case f.backend.proofs <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-f.backend.proofs }()
	claim := claim{since: since, proven: make(chan bool, 1)}
	err = guard.Call(func() (err error) {
		claim.Proof, err = f.resource.Prove(ctx, since)
		return err
	})
	if err != nil {
		return 0, err
	}
	proven := false
	select {
	case w.claims <- claim:
		proven = <-claim.proven
	case <-w.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	f.observe.proof(proven)
	if !proven {
		return 0, nil
	}
	return claim.Revision, nil
}

// claim is a Proof on its way to the watch, which knows what the cache has.
type claim struct {
	Proof
	since  uint64
	proven chan bool // has room for one
}

// objects is how many the cache has.
type objects struct {
	count int64
	known bool // the cache was filled under our eyes
}

func (o *objects) took(event watch.Event) {
	switch event.Type {
	case watch.Added:
		o.count++
	case watch.Deleted:
		o.count--
	}
}

// page counts a page of a list that fills the cache.
func (o *objects) page(first, last bool, n int) {
	if first {
		o.count = 0
	}
	o.count += int64(n)
	o.known = last
}

// proof judges a claim: it was made of the revision that the cache has now (while it is
// filled it has none), and nothing has come since. It is false when the watch is over.
func (w *feedWatch) proof(c claim) bool {
	if w.at.revision != c.since || c.Newer || !w.objects.known || w.objects.count != c.Count {
		c.proven <- false
		return true
	}
	more := true
	if c.Revision > c.since {
		w.feed.gaps.add(c.since, c.Revision)
		w.passed.extend(c.since, c.Revision)
		more = w.proved(newBookmark(w.feed.newItem, c.Revision), c.Revision)
	}
	c.proven <- more
	return more
}

// passed is what proofs have made of no interest: objects that came and went between two
// revisions.
type passed struct {
	after, upTo uint64
	here        map[string]int // came, and have to go; see Resource.identity
}

// extend adds what is between two revisions; the cache has no event above since.
func (p *passed) extend(since, upTo uint64) {
	if p.upTo != since {
		p.after = since
	}
	p.upTo = upTo
}

func (p *passed) covers(revision uint64) bool { return p.after < revision && revision <= p.upTo }

// pass takes an event at or below the revision of a proof, which the cache does without. It
// is false where the event shows that the proof was wrong.
func (p *passed) pass(event watch.Event, identity string) bool {
	came := p.here[identity] > 0
	switch {
	case event.Type == watch.Added:
		if p.here == nil {
			p.here = map[string]int{}
		}
		p.here[identity]++
		return true
	case event.Type == watch.Deleted && came:
		if p.here[identity]--; p.here[identity] == 0 {
			delete(p.here, identity)
		}
	}
	return came
}

// disproved ends a watch that contradicts a proof, so that the cache fills anew.
func (w *feedWatch) disproved(revision uint64) bool {
	w.feed.observe.disproved(revision, w.passed.upTo)
	w.feed.backend.chooser.found(func(p *Properties) { p.FiltersWork = VerdictNo })
	status := apierrors.NewResourceExpired("rvfloor: the watch brought revision " + formatRevision(revision) +
		", and a range at " + formatRevision(w.passed.upTo) + " had shown nothing new").Status()
	w.send(watch.Event{Type: watch.Error, Object: &status})
	return false
}
