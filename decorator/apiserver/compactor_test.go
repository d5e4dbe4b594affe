package apiserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

// compactLoop is what etcd3's compaction loop runs in, also before its first step.
const compactLoop = "k8s.io/apiserver/pkg/storage/etcd3.NewCompactor.func1"

// fakeLoop is a compaction loop that does nothing.
type fakeLoop struct {
	interval time.Duration
	revision int64
	stopped  int
}

func (f *fakeLoop) CompactRevision() int64 { return f.revision }
func (f *fakeLoop) Stop()                  { f.stopped++ }

func TestCompactorIsShared(t *testing.T) {
	var loops []*fakeLoop
	c := &compactor{start: func(_ *clientv3.Client, interval time.Duration) runningCompactor {
		loops = append(loops, &fakeLoop{interval: interval, revision: 10 * int64(len(loops)+1)})
		return loops[len(loops)-1]
	}}

	off, releaseOff := c.acquire(0)
	assert.True(t, off == nil, "etcd3 tests the interface for nil")
	releaseOff()
	require.Empty(t, loops, "0 is off")

	slow, releaseSlow := c.acquire(5 * time.Minute)
	same, releaseSame := c.acquire(10 * time.Minute)
	require.Len(t, loops, 1)
	assert.Same(t, slow, same)
	assert.EqualValues(t, 10, slow.CompactRevision())

	loops[0].revision = 40
	_, releaseFast := c.acquire(time.Minute)
	require.Len(t, loops, 2)
	assert.Equal(t, 1, loops[0].stopped, "the slow loop is replaced")
	assert.Equal(t, time.Minute, loops[1].interval)
	assert.EqualValues(t, 40, slow.CompactRevision(), "who held the slow loop follows, and knows no less")
	loops[1].revision = 50
	assert.EqualValues(t, 50, slow.CompactRevision())

	releaseSlow()
	releaseSlow()
	releaseFast()
	assert.Zero(t, loops[1].stopped, "somebody still holds it; a second release does not count")
	releaseSame()
	assert.Equal(t, 1, loops[1].stopped)
	assert.EqualValues(t, 50, slow.CompactRevision())

	_, releaseAgain := c.acquire(time.Hour)
	require.Len(t, loops, 3)
	assert.Equal(t, time.Hour, loops[2].interval, "the interval of those who have gone is forgotten")
	releaseAgain()
}

// The real loop runs once while it is held, and is joined.
func TestCompactorRunsOnce(t *testing.T) {
	etcd := startEtcd(t)
	pooled, err := dial(t.Context(), storageConfig(etcd.Endpoints()...).Transport)
	require.NoError(t, err)
	defer pooled.Close()
	_, err = pooled.KV.Get(t.Context(), "key")
	require.NoError(t, err)
	before := goleak.IgnoreCurrent()
	c := newCompactor(pooled)
	_, releaseOne := c.acquire(time.Hour)
	_, releaseTwo := c.acquire(time.Minute)
	awaitGoroutines(t, compactLoop, 1)
	releaseOne()
	awaitGoroutines(t, compactLoop, 1)
	releaseTwo()
	awaitGoroutines(t, compactLoop, 0)
	goleak.VerifyNone(t, before)
}

// The loop compacts: an old revision cannot be read any more, and who holds the compactor learns it.
func TestCompactorCompacts(t *testing.T) {
	etcd := startEtcd(t)
	c := newCompactor(etcd)
	compaction, release := c.acquire(tick)
	defer release()
	put, err := etcd.Put(t.Context(), "key", "value")
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return compaction.CompactRevision() >= put.Header.Revision }, wait, tick)
	_, err = etcd.KV.Get(t.Context(), "key", clientv3.WithRev(1))
	assert.ErrorContains(t, err, "compacted")
}
