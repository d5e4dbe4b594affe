package progress

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// benchStream is a Stream whose kicks go nowhere, so that the cost of waiting is
// all that is left.
func benchStream() *Stream {
	return ample().NewStream(StreamConfig{Kick: func(context.Context) error { return nil }})
}

// BenchmarkWaiters is what 100,000 callers that wait cost, in bytes of heap and of
// stack each. The stack is the caller's own goroutine, which it has anyway; the heap
// is what a wait adds.
func BenchmarkWaiters(b *testing.B) {
	const waiters = 100_000
	for _, revisions := range []uint64{1, 1000, waiters} {
		b.Run(fmt.Sprintf("%d-revisions", revisions), func(b *testing.B) {
			var heap, stack float64
			for b.Loop() {
				s := benchStream()
				ctx, cancel := context.WithCancel(b.Context())
				var wg sync.WaitGroup
				release := make(chan struct{})
				// The same goroutines, before and after they wait.
				var ready sync.WaitGroup
				ready.Add(waiters)
				for i := range uint64(waiters) {
					wg.Go(func() {
						ready.Done()
						<-release
						if err := s.Wait(ctx, 1+i%revisions); err != nil {
							b.Error(err)
						}
					})
				}
				ready.Wait()
				before := memory()
				close(release)
				for s.Waiters() < waiters {
					runtime.Gosched()
				}
				after := memory()
				heap += float64(after.HeapAlloc) - float64(before.HeapAlloc)
				stack += float64(after.StackInuse) - float64(before.StackInuse)
				s.Applied(revisions)
				wg.Wait()
				cancel()
				s.Close()
			}
			b.ReportMetric(heap/float64(b.N)/waiters, "heap-B/waiter")
			b.ReportMetric(stack/float64(b.N)/waiters, "stack-B/waiter")
			b.ReportMetric(0, "ns/op") // it says how fast goroutines start
		})
	}
}

func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// BenchmarkWake is one waiter more and one woken, while callers wait for so many
// distinct revisions.
func BenchmarkWake(b *testing.B) {
	for _, revisions := range []uint64{1, 100, 10_000} {
		b.Run(fmt.Sprintf("%d-revisions", revisions), func(b *testing.B) {
			s := benchStream()
			defer s.Close()
			join := func(revision uint64) {
				if g, _, err := s.join(revision, 0); g == nil {
					b.Fatalf("join(%d) returned no group, %v", revision, err)
				}
			}
			for revision := range revisions {
				join(revision + 1)
			}
			b.ReportAllocs()
			applied := uint64(0)
			for b.Loop() {
				applied++
				join(applied + revisions)
				s.Applied(applied)
			}
		})
	}
}

// BenchmarkWakeTogether is 10,000 callers that wait, woken at once until all have
// returned: for one revision, and for as many as there are callers.
func BenchmarkWakeTogether(b *testing.B) {
	const waiters = 10_000
	for _, revisions := range []uint64{1, waiters} {
		b.Run(fmt.Sprintf("%d-revisions", revisions), func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				s := benchStream()
				var wg sync.WaitGroup
				for i := range uint64(waiters) {
					wg.Go(func() {
						if err := s.Wait(b.Context(), 1+i%revisions); err != nil {
							b.Error(err)
						}
					})
				}
				for s.Waiters() < waiters {
					runtime.Gosched()
				}
				start := time.Now()
				s.Applied(revisions)
				wg.Wait()
				took += time.Since(start)
				s.Close()
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/waiters, "ns/waiter")
			b.ReportMetric(0, "ns/op") // it says how fast goroutines start
		})
	}
}

// BenchmarkFresh is a wait for what is applied: the usual case of a busy resource.
func BenchmarkFresh(b *testing.B) {
	s := benchStream()
	defer s.Close()
	s.Applied(10)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Wait(context.Background(), 10); err != nil {
				b.Error(err)
			}
		}
	})
}
