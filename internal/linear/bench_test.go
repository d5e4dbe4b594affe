package linear

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkMillion records and judges a million operations, a fifth of them writes,
// with lists of 100 objects; the truth comes along. It reports what one run takes, and
// what of it is kept in memory.
func BenchmarkMillion(b *testing.B) {
	const operations, objects, clients = 1_000_000, 100, 8
	for b.Loop() {
		run := New(Config{SecondOpinion: []string{"/a/7"}})
		now := int64(0)
		run.now = func() int64 { now++; return now }
		var all []*Client
		for i := range clients {
			all = append(all, run.Client(fmt.Sprint("client ", i)))
		}
		items := make([]Item, objects)
		for i := range items {
			items[i] = Item{Key: fmt.Sprint("/a/", i)}
		}
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		revision := uint64(0)
		for i := range operations {
			client := all[i%clients]
			if i < objects || i%5 == 0 {
				revision++
				change := Change{Key: items[revision%objects].Key, Value: fmt.Sprint(revision)}
				w := client.Write(Update, change)
				items[revision%objects].Value, items[revision%objects].Revision = change.Value, revision
				if err := run.Truth(Revision{revision, []Change{change}}); err != nil {
					b.Fatal(err)
				}
				w.Acknowledged(revision)
				continue
			}
			client.List("/a/", "").Answered(revision, items...)
		}
		recorded := b.Elapsed()
		var after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&after)
		if err := run.Check().Err(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((b.Elapsed() - recorded).Seconds(), "s-to-check")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/operations, "B/operation")
	}
}
