package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

const (
	overloadPods = callers / 50 // few under the race detector
	// overloadCallers ask for overloadKinds different lists, all of everything.
	overloadCallers, overloadKinds = 1000, 10
	// fullLists is how many may be under way at once for one resource.
	fullLists = 5
	// callerSize is more than a caller takes in memory while it waits, in bytes. A copy
	// of the list for each would take many times as much.
	callerSize = 8 << 10
)

// TestDirectUnderStall: the watch of a cache stalls under a thousand callers, for
// whom the policy is Direct. Five full lists reach etcd at once, equal ones are shared,
// the rest are told to come later when their turn does not come, and memory is bounded by the lists, not by the
// callers (kubernetes/kubernetes#138494).
func TestDirectUnderStall(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	stalled := newStall()
	s := newOurs(t, cluster, decorator.Config{OnUnverified: decorator.UnverifiedDirect, MaxWait: 100 * time.Millisecond}, stalled.dial()...)
	s.fillHeavy(t)
	stalled.begin()
	if _, err := s.create(t.Context(), "heavy", "unseen", 0, nil); err != nil {
		t.Fatal(err)
	}

	five := livePeak(func() {
		enough, let := stalled.hold(fullLists)
		kept := make([]example.PodList, fullLists)
		var done sync.WaitGroup
		for i := range kept {
			done.Go(func() {
				if err := s.raw.GetList(t.Context(), prefix, kind(i), &kept[i]); err != nil {
					t.Error(err)
				}
			})
		}
		<-enough
		let()
		done.Wait()
		runtime.GC()
		runtime.KeepAlive(kept)
	})

	const shared = overloadCallers * (overloadKinds - fullLists) / overloadKinds
	storm := func() {
		_, let := stalled.hold(0)
		var refused atomic.Int64
		allRefused := make(chan struct{})
		var done sync.WaitGroup
		for i := range overloadCallers {
			done.Go(func() {
				var pods example.PodList
				err := s.GetList(t.Context(), prefix, kind(i%overloadKinds), &pods)
				switch {
				case errors.Is(err, decorator.ErrBusy) && apierrors.IsTooManyRequests(err):
					if after, ok := apierrors.SuggestsClientDelay(err); !ok || after < 1 {
						t.Errorf("%v has no Retry-After", err)
					}
					if refused.Add(1) == shared {
						close(allRefused)
					}
				case err != nil:
					t.Error(err)
				case len(pods.Items) != overloadPods+1:
					t.Errorf("%d objects, want %d", len(pods.Items), overloadPods+1)
				}
			})
		}
		<-allRefused
		let()
		done.Wait()
		if got := refused.Load(); got != shared {
			t.Errorf("%d callers were refused, want %d", got, shared)
		}
	}
	// What else the process does shows in one storm; a copy for each caller would in all.
	peak, bound := livePeak(storm), 2*five+overloadCallers*callerSize
	for try := 1; peak > bound && try < 3; try++ {
		t.Logf("peak %.1f MB, once more", peak/1e6)
		peak = livePeak(storm)
	}

	utmost, total := stalled.counts()
	t.Logf("%d lists, %d at once, %d callers refused; peak %.1f MB, of five lists %.1f MB", total, utmost, shared, peak/1e6, five/1e6)
	if utmost != fullLists {
		t.Errorf("%d full lists at once, want %d", utmost, fullLists)
	}
	// Two for each kind, and those for callers whom a busy machine held up.
	if total > overloadCallers/10 {
		t.Errorf("%d full lists reached etcd", total)
	}
	if peak > bound {
		t.Errorf("the peak was %.1f MB, more than twice that of five lists, %.1f MB, and what the callers take", peak/1e6, five/1e6)
	}
}

// TestStockUnderStall is the control: stock sends a list for each caller, all at once.
func TestStockUnderStall(t *testing.T) {
	const callers = 100
	cluster := etcdlab.Run(t, etcdlab.Config{})
	stalled := newStall()
	s := newStock(t, cluster, stalled.dial()...)
	stalled.begin()
	if _, err := s.create(t.Context(), "heavy", "unseen", 0, nil); err != nil {
		t.Fatal(err)
	}
	enough, let := stalled.hold(callers)
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			if err := s.GetList(t.Context(), prefix, kind(0), &example.PodList{}); err != nil {
				t.Error(err)
			}
		})
	}
	<-enough
	let()
	done.Wait()
	if utmost, _ := stalled.counts(); utmost != callers {
		t.Errorf("%d lists at once, want %d: the control does not show what the other test is for", utmost, callers)
	}
}

// kind i is one of many requests that differ, and have the same answer.
func kind(i int) storage.ListOptions {
	opts := everything("")
	selector, err := labels.Parse(fmt.Sprintf("kind!=%d", i))
	if err != nil {
		panic(err)
	}
	opts.Predicate.Label, opts.Predicate.GetAttrs = selector, podAttrs
	return opts
}

// fillHeavy writes pods of which a copy takes much memory: strings are shared by
// copies, and maps are not.
func (s *side) fillHeavy(t *testing.T) {
	t.Helper()
	set := map[string]string{}
	for i := range 100 {
		set[fmt.Sprintf("label-%d", i)] = fmt.Sprint(i)
	}
	for i := range overloadPods {
		if _, err := s.create(t.Context(), "heavy", fmt.Sprintf("p%d", i), 0, set); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.GetList(t.Context(), prefix, everything(""), &example.PodList{}); err != nil {
		t.Fatal(err)
	}
}

// livePeak is by how many bytes f lets the live heap grow at most, as the garbage
// collector finds it: it is made to run often, and each of its cycles is a sample.
func livePeak(f func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	before := liveHeap()
	var most atomic.Uint64
	ctx, cancel := context.WithCancel(context.Background())
	sampleEachCycle(ctx, &most)
	f()
	cancel()
	return float64(max(most.Load(), before) - before)
}

// sampleEachCycle is called again by the end of each cycle, until ctx ends.
func sampleEachCycle(ctx context.Context, most *atomic.Uint64) {
	if ctx.Err() != nil {
		return
	}
	most.Store(max(most.Load(), liveHeap()))
	runtime.AddCleanup(new([16]*int), func(struct{}) { sampleEachCycle(ctx, most) }, struct{}{})
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
