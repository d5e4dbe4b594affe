package decorator

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// pulsed is a source with a witness, which counts.
type pulsed struct {
	reads, appends atomic.Int64
	err            error
}

func (p *pulsed) Read(context.Context) (freshness.Reading, error) {
	p.reads.Add(1)
	return freshness.Reading{Revision: 1}, p.err
}

func (p *pulsed) Append(context.Context) error { p.appends.Add(1); return p.err }

// bare is a storage with nothing in it.
func bare(t *testing.T) storage.Interface {
	return memory(t, memstorage.NewBackend(), memstorage.Config{Prefix: "/pods/"})
}

// TestPulse: floors are read each 10 s and the witness is appended to each minute, as
// long as there is a Store, and not where a caller has just read a floor.
func TestPulse(t *testing.T) {
	for name, test := range map[string]struct {
		pulse, each    time.Duration // each: somebody else reads so often; 0: nobody
		mode           Mode
		err            error
		reads, appends int64 // in ten minutes
		outages        int64 // reads more, until it is an outage
	}{
		"default":               {mode: ModeVerify, reads: 60, appends: 10},
		"a caller reads":        {mode: ModeVerify, each: time.Second, reads: 601, appends: 10},
		"a caller reads seldom": {mode: ModeVerify, each: 6 * time.Second, reads: 101, appends: 10},
		"quick":                 {mode: ModeVerify, pulse: 5 * time.Second, reads: 120, appends: 120},
		"none":                  {mode: ModeVerify, pulse: -1},
		"off":                   {mode: ModeOff},
		"shadow":                {mode: ModeShadow, reads: 60, appends: 10},
		"down":                  {mode: ModeVerify, err: context.DeadlineExceeded, reads: 601, outages: 3, appends: 10}, // a failed floor is read again at once, in the first seconds
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &pulsed{err: test.err}
				b, err := NewBackend(Config{Source: source, Pulse: test.pulse})
				if err != nil {
					t.Fatal(err)
				}
				if err := b.SetMode(test.mode); err != nil {
					t.Fatal(err)
				}
				for round := range 2 {
					time.Sleep(time.Hour)
					if n := source.reads.Load() + source.appends.Load(); n != 0 {
						t.Fatalf("round %d: %d calls without a Store", round, n)
					}
					wrap := func() *Store {
						s, err := b.Wrap(bare(t), Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
						if err != nil {
							t.Fatal(err)
						}
						return s
					}
					first := wrap()
					second := wrap()
					first.Close()
					end := time.Now().Add(10*time.Minute + time.Millisecond)
					for test.each > 0 && time.Until(end) > test.each {
						time.Sleep(test.each)
						if _, err := b.floors.Next(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Until(end))
					second.Close()
					if reads, appends := source.reads.Load(), source.appends.Load(); reads != test.reads+test.outages || appends != test.appends {
						t.Errorf("round %d: %d reads and %d appends in ten minutes, want %d and %d", round, reads, appends, test.reads+test.outages, test.appends)
					}
					test.outages = 0 // it is known for one in the next round
					source.reads.Store(0)
					source.appends.Store(0)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPulseEndsWithTheBackend: Close joins it, also while a floor is being read.
func TestPulseEndsWithTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBackend(Config{Source: freshness.SourceFunc(func(ctx context.Context) (uint64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Wrap(bare(t), Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		// A goroutine that is left would keep the bubble from ending.
	})
}
