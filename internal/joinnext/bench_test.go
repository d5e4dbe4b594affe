package joinnext

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rvfloor/rvfloor/internal/joinnext/joinrule"
)

// The sound forms side by side. "calls" is the number of reads that
// reached the backend for each that a caller asked for, "peak" the most that
// were in flight at once.

func BenchmarkGroup(b *testing.B)      { benchmark(b, byGroup) }
func BenchmarkInline(b *testing.B)     { benchmark(b, byInlineGroup) }
func BenchmarkGeneration(b *testing.B) { benchmark(b, byGeneration) }

func benchmark(b *testing.B, share func(joinrule.Read) joinrule.Read) {
	for _, bench := range []struct {
		name    string
		callers int
		latency time.Duration
	}{
		{"1caller/at-once", 1, 0},
		{"100callers/at-once", 100, 0},
		{"10000callers/at-once", 10_000, 0},
		{"1caller/200us", 1, 200 * time.Microsecond},
		{"100callers/200us", 100, 200 * time.Microsecond},
		{"10000callers/200us", 10_000, 200 * time.Microsecond},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var calls, inFlight, peak atomic.Int64
			shared := share(func(context.Context) (uint64, error) {
				now := inFlight.Add(1)
				defer inFlight.Add(-1)
				for most := peak.Load(); now > most && !peak.CompareAndSwap(most, now); {
					most = peak.Load()
				}
				if bench.latency > 0 {
					time.Sleep(bench.latency) // stands for a round trip
				}
				return uint64(calls.Add(1)), nil
			})
			b.ReportAllocs()

			// callers loops of b.N reads in all.
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(b.Context()) // as a request's: it can end
			defer cancel()
			b.ResetTimer()
			for range bench.callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := shared(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(calls.Load())/float64(b.N), "calls/op")
			b.ReportMetric(float64(peak.Load()), "peak")
		})
	}
}
