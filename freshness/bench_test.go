package freshness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// BenchmarkNext is what Floors add to a read, with a source that answers at
// once.
func BenchmarkNext(b *testing.B) {
	floors, reads := benchFloors(b)
	ctx, cancel := context.WithCancel(b.Context()) // can end, as a request's
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := floors.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(reads.Load())/float64(b.N), "reads/op")
}

// BenchmarkNext10000Callers is one storm an operation: 10,000 callers at once,
// all answered.
func BenchmarkNext10000Callers(b *testing.B) {
	const callers = 10_000
	floors, reads := benchFloors(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		var storm sync.WaitGroup
		for range callers {
			storm.Go(func() {
				if _, err := floors.Next(ctx); err != nil {
					b.Error(err)
				}
			})
		}
		storm.Wait()
	}
	b.ReportMetric(float64(reads.Load())/float64(b.N), "reads/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/callers, "ns/caller")
}

// BenchmarkWithin is a caller that takes the floor of another.
func BenchmarkWithin(b *testing.B) {
	floors, reads := benchFloors(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := floors.Within(ctx, 1<<62); err != nil {
			b.Fatal(err)
		}
	}
	if reads.Load() != 1 {
		b.Errorf("%d reads", reads.Load())
	}
}

func benchFloors(b *testing.B) (*Floors, *atomic.Uint64) {
	var reads atomic.Uint64
	floors, err := NewFloors(SourceFunc(func(context.Context) (uint64, error) { return reads.Add(1), nil }), Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = floors.Close() })
	return floors, &reads
}

// BenchmarkSentinelRead is a round trip to etcd and the whole chain, beside a
// read that fetches no value.
func BenchmarkSentinelRead(b *testing.B) {
	cluster := etcdlab.Run(b, etcdlab.Config{})
	client := etcdlab.Connect(b, cluster, etcdlab.ClientConfig{})
	sentinel := NewSentinel(client, testKey)
	b.Run("missing key", func(b *testing.B) {
		for b.Loop() {
			if _, err := client.Get(b.Context(), "/missing"); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, links := range []int{1, MaxChain} {
		if links > 1 {
			for range links {
				if err := sentinel.Append(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run(fmt.Sprintf("%d links", links), func(b *testing.B) {
			for b.Loop() {
				if _, err := sentinel.Read(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
