package probe

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// minFiltered is how many ranges make a verdict: with fewer the rounds were over before
// they began.
const minFiltered = 3

// prover asks, beside the writes, what changed since a revision and how many keys there
// are, and later compares with what was written.
type prover struct {
	probe *probe

	mu    sync.Mutex
	asked []proof
}

// proof is one answer.
type proof struct {
	since, at int64
	newer     int64 // the mod revision of a newer key; 0: none
	count     int64
}

func newProver(p *probe) *prover { return &prover{probe: p} }

// run asks until done, and once more: then nothing is newer. It gives up at the first
// error, which is a verdict where the backend answers everything else.
func (r *prover) run(ctx context.Context, done <-chan struct{}) {
	folder := r.probe.dir + busy
	for i, last := 0, false; !last && !r.probe.filters.failed() && ctx.Err() == nil; i++ {
		last = closed(done)
		since := int64(r.probe.newest.Load()) + 1
		resp, err := r.probe.client(i).Get(ctx, folder, clientv3.WithRange(clientv3.GetPrefixRangeEnd(folder)),
			clientv3.WithMinModRev(since), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			if ctx.Err() == nil {
				r.probe.filters.trial(false, "a range with a least mod revision: %v", err)
			}
			return
		}
		answer := proof{since: since, at: r.probe.header("a range", resp.Header), count: resp.Count}
		if len(resp.Kvs) > 0 {
			answer.newer = resp.Kvs[0].ModRevision
		}
		r.mu.Lock()
		r.asked = append(r.asked, answer)
		r.mu.Unlock()
	}
}

// judge compares: at the revision of the answer the count is of the keys created up to it,
// and a newer key is there exactly if one was written.
func (r *prover) judge() error {
	history, err := r.probe.known()
	if err != nil {
		return err
	}
	for _, a := range r.asked {
		var count int64
		newer := false
		for _, w := range history {
			if !r.probe.in(busy, w.key) || w.revision > a.at {
				continue
			}
			if w.created {
				count++
			}
			newer = newer || w.revision >= a.since
		}
		ok := a.count == count && (a.newer != 0) == newer && (a.newer == 0 || a.newer >= a.since && a.newer <= a.at)
		r.probe.filters.trial(ok, "a range at revision %d, asked for mod revisions from %d on, answered %d keys and mod revision %d; there were %d, newer ones: %v",
			a.at, a.since, a.count, a.newer, count, newer)
	}
	return nil
}
