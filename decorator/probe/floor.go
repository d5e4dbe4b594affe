package probe

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	floorKey   = "floor"   // that floors are read at
	missingKey = "missing" // that never exists
	// elsewhereKey never exists either, in what could be the prefix of a resource, beside the
	// folder that the probe's prefix is in.
	elsewhereKey = "rvfloor-elsewhere/missing"
	// spaces is how often it is read. Counters that differ, do so each time.
	spaces = 5
	// sequential is how many writes are read back one by one. The fault that they are for, a
	// second process with a counter of its own in memory, shows in each.
	sequential = 20
)

// oneByOne writes through one client and reads through another, under two prefixes in
// turn.
func (p *probe) oneByOne(ctx context.Context) error {
	for i := range spaces {
		if err := p.compareElsewhere(ctx, i); err != nil {
			return err
		}
	}
	for i := range sequential {
		began := time.Now()
		before, err := p.readFloor(ctx, p.client(i+1), floorKey, &p.floor)
		if err != nil {
			return err
		}
		p.floor.timed(time.Since(began))
		last := int64(p.newest.Load())
		name := fmt.Sprintf("%s/%d", [...]string{"a", "b"}[i%2], i/2%3)
		rev, err := p.put(ctx, p.client(i), name)
		if err != nil {
			return err
		}
		p.space.trial(rev > before && rev > last, "the write of %s was at revision %d, after a read had answered revision %d and a write revision %d", name, rev, before, last)

		if err := p.readBack(ctx, p.client(i+1), name, rev); err != nil {
			return err
		}
		if _, err := p.readFloor(ctx, p.client(i+1), missingKey, &p.missing); err != nil {
			return err
		}
	}
	return nil
}

// readBack reads what was written at a revision, or later.
func (p *probe) readBack(ctx context.Context, client *clientv3.Client, name string, rev int64) error {
	acknowledged := int64(p.newest.Load())
	resp, err := client.Get(ctx, p.dir+name)
	if err != nil {
		p.floor.broken(err)
		return fmt.Errorf("read of %s: %w", p.dir+name, err)
	}
	var found int64
	if len(resp.Kvs) > 0 {
		found = resp.Kvs[0].ModRevision
	}
	at := p.header("a read", resp.Header)
	p.floor.trial(at >= acknowledged && found >= rev,
		"%s was written at revision %d through one client, and read through another at revision %d (mod revision %d) after revision %d was acknowledged", name, rev, at, found, acknowledged)
	return nil
}

// readFloor reads a key's header and compares it with what was acknowledged before.
func (p *probe) readFloor(ctx context.Context, client *clientv3.Client, name string, t *tally) (int64, error) {
	acknowledged := int64(p.newest.Load())
	resp, err := client.Get(ctx, p.dir+name)
	if err != nil {
		t.broken(err)
		return 0, fmt.Errorf("read of %s: %w", p.dir+name, err)
	}
	rev := p.header("a read", resp.Header)
	t.trial(rev >= acknowledged, "a read of %q answered revision %d, after revision %d was acknowledged", name, rev, acknowledged)
	return rev, nil
}

// compareElsewhere looks whether a write moves the revision that is read under another
// prefix, be it late: how late is for other trials to say.
func (p *probe) compareElsewhere(ctx context.Context, i int) error {
	key := path.Join(path.Dir(path.Dir(path.Dir(path.Clean(p.dir)))), elsewhereKey)
	read := func() (int64, error) {
		resp, err := p.client(i).Get(ctx, key)
		if err != nil {
			return 0, err
		}
		return p.header("a read", resp.Header), nil
	}
	before, err := read()
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil // what the probe writes has to do
	}
	if err != nil {
		return err
	}
	rev, err := p.put(ctx, p.client(i), "a/elsewhere")
	if err != nil {
		return err
	}
	var after int64
	for until := time.Now().Add(patience / spaces); after < rev && time.Now().Before(until); {
		if after, err = read(); err != nil {
			return err
		}
	}
	p.space.trial(before < rev && rev <= after, "a write was at revision %d; a read of %s answered revision %d before it and %d after it", rev, key, before, after)
	return nil
}
