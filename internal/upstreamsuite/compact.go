package upstreamsuite

import (
	"context"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

const (
	// noticeTime bounds the wait for a cache to notice a compaction: the Cacher looks every 15 s.
	noticeTime = time.Minute
	// lookPeriod is how often to look for what nobody signals.
	lookPeriod = 50 * time.Millisecond
)

// compactEtcd compacts etcd as an API server does, with the one write to the compaction key that RunTestList counts, and
// waits until the store has taken note.
func (s Setup) compactEtcd(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision := parseRevision(t, resourceVersion)
	_, _, compacted, err := etcd3.Compact(ctx, s.Etcd.direct, 0, revision) // 0: the key is not there before
	if err != nil {
		t.Fatalf("compacting at %d: %v", revision, err)
	}
	if compacted != revision {
		t.Fatalf("compacted at %d, want %d: somebody else compacts this cluster", compacted, revision)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot) {
		return // nothing in the store keeps old revisions, and nothing watches for compactions
	}
	lookFor(ctx, t, "the store to notice the compaction", func() bool { return s.Store.CompactRevision() == revision })
}

// compactCache has etcd and the cache forget all history up to resourceVersion, at least. Upstream reaches into the Cacher for
// it. Here the cache loses its connection, etcd compacts past what the cache would resume from, and so the cache starts over.
func (s Setup) compactCache(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision := parseRevision(t, resourceVersion)
	// A cache that starts over ends every watch: that is the signal.
	w, err := s.Store.Watch(ctx, ResourcePrefix, storage.ListOptions{ResourceVersion: resourceVersion, Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	s.Etcd.link().Cut()
	defer s.Etcd.link().Heal()
	// The watch resumes at most one above the newest revision before the cut, so it takes two writes to be surely below.
	s.increaseRV(ctx, t)
	newest := s.increaseRV(ctx, t)
	if newest <= revision {
		t.Fatalf("etcd is at %d, cannot compact at %d", newest, revision)
	}
	if _, err := s.Etcd.direct.Compact(ctx, newest); err != nil {
		t.Fatalf("compacting at %d: %v", newest, err)
	}
	s.Etcd.link().Heal()

	deadline := time.NewTimer(noticeTime)
	defer deadline.Stop()
	for open := true; open; {
		select {
		case _, open = <-w.ResultChan():
		case <-deadline.C:
			t.Fatalf("the cache went on from a compacted revision for %v", noticeTime)
		}
	}
	lookFor(ctx, t, "the cache to be ready again", func() bool { return s.Store.ReadinessCheck() == nil })
}

// increaseRV moves etcd's revision by one, with a write outside the resource.
func (s Setup) increaseRV(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	response, err := s.Etcd.direct.Put(ctx, "elsewhere", "")
	if err != nil {
		t.Fatalf("raising the revision: %v", err)
	}
	return response.Header.Revision
}

func lookFor(ctx context.Context, t testing.TB, what string, seen func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, lookPeriod, noticeTime, true, func(context.Context) (bool, error) { return seen(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func parseRevision(t *testing.T, resourceVersion string) int64 {
	t.Helper()
	revision, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil || revision <= 0 {
		t.Fatalf("resourceVersion %q is no revision to compact at", resourceVersion)
	}
	return revision
}
