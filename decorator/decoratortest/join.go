package decoratortest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// moment is enough for a read that joins another's revision read to be answered. What
// it catches is rare, so that many rounds are worth more than long ones.
const moment = time.Millisecond

// checkJoinRule reads from many goroutines, so that revision reads are always in
// flight, while writes are acknowledged that the cache does not hear of. Each answer
// shows what was acknowledged before it began.
func checkJoinRule(r *rig) {
	const readers, rounds = 16, 200
	hot := r.create("join", "join-hot")
	r.mustShow(named("LIST"), hot, "")

	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	var acknowledged atomic.Pointer[write]
	acknowledged.Store(&hot)
	var over atomic.Bool
	var answers atomic.Int64
	var reading sync.WaitGroup
	for i := range readers {
		c := named([]string{"LIST", "LIST at 0", "GET at 0", "LIST of a namespace"}[i%4])
		reading.Go(func() {
			for !over.Load() && !r.t.Failed() {
				w := *acknowledged.Load()
				v, err := c.read(ctx, r, w)
				if err == nil {
					answers.Add(1)
					r.judge(c, w, v, "beside a writer and other readers: ")
				} else if why := retryable(err); why != nil {
					r.t.Errorf("%s: %v: %v", c.name, err, why)
				}
			}
		})
	}
	for range rounds {
		r.HoldWatch()
		w, err := r.update(r.Writer(), *acknowledged.Load())
		if err != nil {
			r.t.Errorf("through Writer: %v", err)
			break
		}
		acknowledged.Store(&w)
		r.unanswered(w, moment) // the others have read meanwhile
		r.ReleaseWatch()
		if r.t.Failed() {
			break
		}
	}
	over.Store(true)
	reading.Wait()
	if answers.Load() == 0 {
		r.t.Error("no read was answered beside a writer")
	}
	// What was held is behind the cache once it shows a later write.
	r.mustShow(named("LIST"), r.create("join", "join-last"), "afterwards: ")
}

// checkJoinRuleInFlight lets a reader arrive while the answer to another's revision
// read is on its way, from before a write that the later reader knows of.
func checkJoinRuleInFlight(r *rig) {
	holder, ok := r.Harness.(ReadHolder)
	if !ok {
		r.skip("that a caller never joins a revision read that was sent before it came, with one in flight", "HoldReads", ", such as that of HoldableSource")
	}
	before := r.create("join", "join-flight")
	r.mustShow(named("LIST"), before, "")

	held := holder.HoldReads()
	defer holder.ReleaseReads()
	r.HoldWatch()
	long, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	first := r.ask(long, named("LIST"), before)
	select {
	case <-held:
	case a := <-first:
		r.t.Fatalf("a LIST ended (%v) while the answers of revision reads were held: the reads that HoldReads holds are not those of the Store", a.err)
	case <-time.After(longest):
		r.t.Fatal("a LIST waits, and no revision read was held: the reads that HoldReads holds are not those of the Store")
	}
	w, err := r.update(r.Writer(), before)
	if err != nil {
		r.t.Fatalf("through Writer: %v", err)
	}
	calls := []call{named("LIST"), named("LIST at 0"), named("GET at 0"), named("LIST by label")}
	var later []<-chan answer
	for _, c := range calls {
		later = append(later, r.ask(long, c, w))
	}
	r.unanswered(w, brief) // those above have come by now
	holder.ReleaseReads()
	r.unanswered(w, brief) // and have been answered by now, if they joined the read in flight
	r.ReleaseWatch()
	<-first
	for i, c := range calls {
		if a := <-later[i]; a.err == nil {
			r.judge(c, w, a.view, "with an older revision read in flight: ")
		}
		r.mustShow(c, w, "afterwards: ")
	}
}
