package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/rvfloor/rvfloor/internal/revision"
)

// ground is the folder of one probe, and all that was written there.
type ground struct {
	clients []*clientv3.Client
	dir     string
	newest  revision.Ratchet // that was acknowledged
	zero    tally            // of revisions in headers
	writes  atomic.Int64

	mu      sync.Mutex
	keys    map[string]int64 // mod revisions of those that exist
	history []write
	unknown error // a write may have happened or not
	refused bool  // the heavy one, which may have happened or not
}

// write is one that was acknowledged.
type write struct {
	key      string
	revision int64
	created  bool
}

// errNoRevision is that of a write whose answer carries none.
var errNoRevision = errors.New("a write was answered without a revision")

// client is the i-th, round and round.
func (g *ground) client(i int) *clientv3.Client { return g.clients[i%len(g.clients)] }

// header counts a header, and answers its revision.
func (g *ground) header(what string, h *etcdserverpb.ResponseHeader) int64 {
	g.zero.trial(h.GetRevision() > 0, "%s answered revision %d in its header", what, h.GetRevision())
	return h.GetRevision()
}

// put creates a key of the folder, or updates it. Each key has one writer at a time. What
// is acknowledged is in newest before put returns.
func (g *ground) put(ctx context.Context, client *clientv3.Client, name string) (int64, error) {
	key := g.dir + name
	g.mu.Lock()
	was := g.keys[key]
	g.mu.Unlock()
	resp, err := g.swap(ctx, client, key, was, name)
	// A process that is behind does not know yet what another has written. One of them has.
	for i := 0; err == nil && !resp.Succeeded && i < len(g.clients); i++ {
		resp, err = g.swap(ctx, g.client(i), key, was, name)
	}
	if err == nil && !resp.Succeeded {
		err = errors.New("the backend refused to write it at the mod revision that it has")
	}
	if err != nil {
		err = fmt.Errorf("write of %s: %w", key, err)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.unknown = errors.Join(g.unknown, err)
		return 0, err
	}
	rev := g.header("a transaction", resp.Header)
	g.mu.Lock()
	if rev <= 0 {
		defer g.mu.Unlock()
		g.unknown = errNoRevision
		return 0, errNoRevision
	}
	g.keys[key] = rev
	g.history = append(g.history, write{key: key, revision: rev, created: was == 0})
	g.mu.Unlock()
	g.newest.Raise(uint64(rev))
	return rev, nil
}

// putHeavy writes a large value through a client that also writes bursts, and answers whether
// the backend takes it. A limit of sizes is no fault, and the write no part of the history.
func (g *ground) putHeavy(ctx context.Context, value string) bool {
	key := g.dir + "heavy"
	g.mu.Lock()
	was := g.keys[key]
	g.mu.Unlock()
	resp, err := g.swap(ctx, g.client(watched), key, was, value)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil || !resp.Succeeded {
		g.refused = true
		return false
	}
	g.keys[key] = resp.Header.GetRevision()
	g.newest.Raise(uint64(resp.Header.GetRevision()))
	return true
}

// swap writes a key if its mod revision is was, 0 if it is not there.
func (g *ground) swap(ctx context.Context, client *clientv3.Client, key string, was int64, value string) (*clientv3.TxnResponse, error) {
	txn := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", was)).Then(clientv3.OpPut(key, value))
	if was != 0 {
		txn = txn.Else(clientv3.OpGet(key)) // kine knows an update by it
	}
	g.writes.Add(1)
	return txn.Commit()
}

// known is every write so far, oldest first, or an error where one may have happened or
// not.
func (g *ground) known() ([]write, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unknown != nil {
		return nil, g.unknown
	}
	history := slices.Clone(g.history)
	slices.SortFunc(history, func(a, b write) int { return int(a.revision - b.revision) })
	return history, nil
}

// cleanUp deletes what was written, and what an unacknowledged write has left.
func (g *ground) cleanUp(ctx context.Context) error {
	left := maps.Clone(g.keys)
	if g.unknown != nil || g.refused {
		resp, err := g.client(0).Get(ctx, g.dir, clientv3.WithRange(clientv3.GetPrefixRangeEnd(g.dir)))
		if err != nil {
			return fmt.Errorf("probe: what is left under %s could not be deleted: %w", g.dir, err)
		}
		for _, kv := range resp.Kvs {
			left[string(kv.Key)] = kv.ModRevision
		}
	}
	var group errgroup.Group
	group.SetLimit(writers)
	for key, rev := range left {
		group.Go(func() error {
			g.writes.Add(1)
			resp, err := g.client(len(key)).Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
				Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit()
			if err == nil && !resp.Succeeded {
				err = errors.New("somebody else has written it")
			}
			if err != nil {
				return fmt.Errorf("probe: %s could not be deleted: %w", key, err)
			}
			return nil
		})
	}
	return group.Wait()
}
