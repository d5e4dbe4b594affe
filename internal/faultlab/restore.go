package faultlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/revision"
)

// restored is the fault after which the stock server does not recover.
const restored = "the backend is restored"

// lost is how many operations there are at least between a snapshot and its restore:
// among them are writes, which are lost.
const lost = 200

const (
	// SentinelKey and Pulse are for servers that leave a trace in etcd, by which they know
	// a restore: the lab loses a second of them, where others lose minutes.
	SentinelKey = "/faultlab/sentinel"
	Pulse       = time.Second
)

// restoredSealed is the restore with a resource that cannot be read meanwhile, so that no
// cache of it is filled.
const restoredSealed = "the backend is restored, and a resource cannot be read"

// restore puts etcd back to a snapshot, with the cluster's id or another. Nobody is
// connected meanwhile, so that the history which is lost can be known to its end.
func restore(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
	dir, err := os.MkdirTemp("", "faultlab")
	if err != nil {
		return none, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "snapshot")
	if err := l.cluster.Save(ctx, random.IntN(3), file); err != nil {
		return none, err
	}
	saved, err := etcdlab.SnapshotRevision(file)
	if err != nil {
		return none, err
	}
	l.awaitSentinel(ctx, saved)
	l.awaitOperations(ctx, lost, hold) // for all to have seen it
	l.writes.Lock()
	defer l.writes.Unlock()
	var doors []*etcdlab.Proxy
	for _, s := range l.servers {
		doors = append(doors, s.doors...)
	}
	mend, err := each(doors, cut(ctx))
	if err != nil {
		return mend, err
	}
	switch end, err := l.endTruth(ctx); {
	case err != nil:
		return mend, err
	case end <= saved+1:
		return mend, errors.New("nothing was written after the snapshot")
	}
	for _, run := range l.all() {
		run.Restoring()
	}
	// Nobody goes on to ask for a revision that is lost, or newer: until the restore is
	// noticed, that is answered from the history before, as it was then.
	l.acknowledged.Store(&revision.Ratchet{})
	var to etcdlab.RestoreConfig // the same cluster id
	if random.IntN(2) == 0 {
		to.Token = fmt.Sprint("another ", random.Uint64())
	}
	if err := l.cluster.Restore(ctx, file, to); err != nil {
		return mend, err
	}
	for _, run := range l.all() {
		if err := run.Restored(saved); err != nil {
			return mend, err
		}
	}
	l.followTruth(l.life, saved+1)
	return mend, nil
}

// awaitSentinel waits until a server has written the sentinel after a revision, if they do.
func (l *lab) awaitSentinel(ctx context.Context, after uint64) {
	ctx, cancel := context.WithTimeout(ctx, 2*Pulse)
	defer cancel()
	<-l.client.Watch(ctx, SentinelKey, clientv3.WithRev(int64(after)+1))
}
