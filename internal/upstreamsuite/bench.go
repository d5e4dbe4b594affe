package upstreamsuite

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/utils/clock"
)

// Size is how much the benchmarks store. Upstream's own sizes (150,000 pods and more) take minutes to fill in.
type Size struct {
	Namespaces, PodsPerNamespace, Nodes int
}

func (s Size) String() string {
	return fmt.Sprintf("Namespaces=%d/Pods=%d/Nodes=%d", s.Namespaces, s.Namespaces*s.PodsPerNamespace, s.Nodes)
}

func (s Size) data() storagetesting.BenchmarkData {
	return storagetesting.PrepareBenchmarkData(s.Namespaces, s.PodsPerNamespace, s.Nodes)
}

// Benchmark runs the benchmarks that upstream runs over its own cached store, each over a store of its own.
func Benchmark(b *testing.B, size Size, newSetup SetupFunc) {
	start := func(b *testing.B) Setup {
		opts := defaultOptions()
		indexed(&opts)
		s := newSetup(b, opts)
		s.check(b)
		return s
	}
	b.Run("WriteThroughput/"+size.String(), func(b *testing.B) {
		s := start(b)
		tracker := storagetesting.NewWatchLatencyTracker(clock.RealClock{})
		s.track(b, tracker)
		storagetesting.RunBenchmarkWriteThroughput(b.Context(), b, s.Store, size.data(), true, tracker)
	})
	b.Run("List/"+size.String(), func(b *testing.B) {
		s, data := start(b), size.data()
		if err := storagetesting.PrecreateBenchmarkPods(b.Context(), s.Store, data); err != nil {
			b.Fatal(err)
		}
		for _, useIndex := range []bool{true, false} {
			b.Run(fmt.Sprintf("Indexed=%v", useIndex), func(b *testing.B) {
				storagetesting.RunBenchmarkStoreList(b.Context(), b, s.Store, data, useIndex)
			})
		}
	})
	b.Run("Stats/"+size.String(), func(b *testing.B) {
		s := start(b)
		if err := storagetesting.PrecreateBenchmarkPods(b.Context(), s.Store, size.data()); err != nil {
			b.Fatal(err)
		}
		storagetesting.RunBenchmarkStoreStats(b.Context(), b, s.Store)
	})
}

// track feeds tracker with the events of a watch of its own, until the benchmark ends. Upstream hooks into the Cacher instead, so its
// latencies lack the way from there to a watcher.
func (s Setup) track(b *testing.B, tracker *storagetesting.WatchLatencyTracker) {
	ctx, cancel := context.WithCancel(b.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		if err := s.follow(ctx, tracker.HandleEvent); err != nil && ctx.Err() == nil {
			b.Errorf("the watch for latencies: %v", err)
		}
	})
	b.Cleanup(func() {
		cancel()
		reader.Wait()
	})
}

// follow hands on all events until ctx ends. The Cacher ends watches that are read too slowly; like any client it then goes on
// after what it has seen.
func (s Setup) follow(ctx context.Context, handle func(any)) error {
	seen := "0"
	for ctx.Err() == nil {
		w, err := s.Store.Watch(ctx, ResourcePrefix, storage.ListOptions{ResourceVersion: seen, Recursive: true, Predicate: storage.Everything})
		if err != nil {
			return err
		}
		defer w.Stop() // seldom more than one
		for event := range w.ResultChan() {
			if event.Type == watch.Error {
				return apierrors.FromObject(event.Object)
			}
			handle(event.Object)
			if object, err := meta.Accessor(event.Object); err == nil {
				seen = object.GetResourceVersion()
			}
		}
	}
	return nil
}
