package probe

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// follower is a client as a watch cache is: it lists and watches from there on.
type follower struct {
	*watch
	at     int64            // the list's revision
	listed map[string]int64 // mod revisions
}

func (p *probe) follow(ctx context.Context, client *clientv3.Client) (*follower, error) {
	folder := p.dir + busy
	resp, err := client.Get(ctx, folder, clientv3.WithRange(clientv3.GetPrefixRangeEnd(folder)))
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", folder, err)
	}
	f := &follower{at: p.header("a list", resp.Header), listed: map[string]int64{}}
	for _, kv := range resp.Kvs {
		f.listed[string(kv.Key)] = kv.ModRevision
	}
	f.watch, err = openWatch(ctx, client, folder, f.at+1)
	return f, err
}

// judgeFollowers compares what each client knows with what was written, once it has an
// event of after the rounds.
func (p *probe) judgeFollowers(ctx context.Context, followers []*follower) error {
	var mark int64
	for i := range endMarks {
		rev, err := p.put(ctx, p.client(i), busy+"end")
		if err != nil {
			return err
		}
		if i == 0 {
			mark = rev
		}
	}
	history, err := p.known()
	if err != nil {
		return err
	}
	const all = 2 * patience // they are many, and one that is late counts
	limited, cancel := context.WithTimeoutCause(ctx, all, fmt.Errorf("no event of after the writes came for %v", all))
	defer cancel()
	p.followers = len(followers)
	for _, f := range followers {
		if err := f.await(limited, func() bool { return f.newest >= mark }); err != nil {
			p.delivered.broken(err)
			continue
		}
		missed := f.missed(history, p.dir+busy, mark)
		p.delivered.trial(missed == nil, "a client listed at revision %d and watched from there on, and never heard of %v", f.at, missed)
		p.judge(f.watch)
	}
	return nil
}

// missed is a write up to a revision that the client has neither listed nor seen, or nil.
func (f *follower) missed(history []write, folder string, through int64) *write {
	for _, w := range history {
		switch {
		case w.revision > through || len(w.key) <= len(folder) || w.key[:len(folder)] != folder:
		case w.revision <= f.at && f.listed[w.key] >= w.revision:
		case w.revision > f.at && f.seen(w.revision):
		default:
			return &w
		}
	}
	return nil
}

func (w *write) String() string {
	return fmt.Sprintf("the write of %s at revision %d", w.key, w.revision)
}
