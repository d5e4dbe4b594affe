package decoratortest

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// checkGate lets a write be acknowledged that the cache does not hear of, and reads
// in every way.
func checkGate(r *rig) {
	if n, ok := r.Harness.(NoInitialEvents); ok {
		r.t.Logf("NOT TESTED: watches with initial events, because the Harness says: %s", n.WhyNoInitialEvents())
	}
	if n, ok := r.Harness.(NoStateWatches); ok {
		r.t.Logf("NOT TESTED: watches that begin with the state, because the Harness says: %s", n.WhyNoStateWatches())
	}
	for _, c := range []struct {
		name  string
		write func(*rig, write) (write, error)
	}{
		{"Update", func(r *rig, w write) (write, error) { return r.update(r.Writer(), w) }},
		{"Delete", func(r *rig, w write) (write, error) { return r.remove(r.Writer(), w) }},
		{"Create", func(r *rig, w write) (write, error) { return r.create("gate", "create-new"), nil }},
		{"Elsewhere", (*rig).writeElsewhere},
	} {
		r.t.Run(c.name, func(t *testing.T) { checkGateOf(r.in(t), c.name, c.write) })
	}
}

// writeElsewhere writes what the object of w has nothing to do with.
func (r *rig) writeElsewhere(w write) (write, error) {
	var err error
	w.elsewhere = true
	if other, ok := r.Harness.(OtherWriter); ok {
		w.revision, err = other.WriteElsewhere(r.t.Context())
	} else {
		w.revision = r.create("elsewhere", "elsewhere-other").revision
	}
	return w, err
}

func checkGateOf(r *rig, name string, change func(*rig, write) (write, error)) {
	before := r.create("gate", "gate-"+name)
	r.mustShow(named("LIST"), before, "")

	r.HoldWatch()
	w, err := change(r, before)
	if err != nil {
		r.t.Fatalf("through Writer: %v", err)
	}
	w.marker = "marker-" + name

	// Those that wait come first, so that those with a deadline prove that they do.
	long, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	var waiting []<-chan answer
	for _, c := range r.newest() {
		waiting = append(waiting, r.ask(long, c, w))
	}
	r.judgeDeadlines(w)
	r.ReleaseWatch()
	r.create("gate", w.marker)

	for i, c := range r.newest() {
		a := <-waiting[i]
		if a.err != nil && !inconclusive(a.err) && retryable(a.err) != nil {
			r.broken("a "+c.name+" waits until the cache has caught up, or fails with an error that says when to retry",
				a.err.Error(), "an error that does not come from the Store's own wait")
		}
		if a.err == nil {
			r.judge(c, w, a.view, "")
		}
		r.mustShow(c, w, "with the watch released again: ")
	}
}

// judgeDeadlines reads in every way with a deadline, while the watch is held.
func (r *rig) judgeDeadlines(w write) {
	ctx, cancel := context.WithTimeout(r.t.Context(), brief)
	defer cancel()
	var asked []<-chan answer
	for _, c := range r.newest() {
		asked = append(asked, r.ask(ctx, c, w))
	}
	for i, c := range r.newest() {
		a := <-asked[i]
		r.judgeDeadline(c, w, a, brief)
	}
}

// judgeDeadline reports what came late, and an answer without the write.
func (r *rig) judgeDeadline(c call, w write, a answer, deadline time.Duration) {
	r.t.Helper()
	if a.took > deadline+atOnce {
		r.broken(fmt.Sprintf("a %s whose deadline is %v away returns by then", c.name, deadline),
			fmt.Sprintf("it took %v (%v)", a.took, a.err),
			"the caller waits inside the cache, which does not heed contexts; the Store is to wait before it asks")
	}
	if a.err == nil {
		r.judge(c, w, a.view, "with the watch held: ")
	}
}

// judge reports an answer without the write.
func (r *rig) judge(c call, w write, v view, when string) {
	r.t.Helper()
	if lacks := w.missing(v); lacks != "" {
		r.broken("a "+c.name+" shows every write that was acknowledged before it began", when+lacks,
			"the cache was asked before it had reached a revision read after the call began (the gate), or that read was one from before (the join rule)")
	}
}

// mustShow reads until there is an answer, and judges that.
func (r *rig) mustShow(c call, w write, when string) view {
	r.t.Helper()
	v := r.eventually(c, w)
	r.judge(c, w, v, when)
	return v
}

// answer is what came of one read. Its times are by the rig's clock.
type answer struct {
	view
	err         error
	took, ended time.Duration
}

// ask reads beside the caller.
func (r *rig) ask(ctx context.Context, c call, w write) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		began := r.clock.Now()
		v, err := c.read(ctx, r, w)
		ended := r.clock.Now()
		answers <- answer{v, err, ended - began, ended}
	}()
	return answers
}

// unanswered passes the time of a read that is not answered by its deadline, so that
// reads that began before it are where they wait.
func (r *rig) unanswered(w write, deadline time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), deadline)
	defer cancel()
	c := named("LIST")
	r.judgeDeadline(c, w, <-r.ask(ctx, c, w), deadline)
}
