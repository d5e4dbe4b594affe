package promise

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// side is what is measured beside others, over the same kine.
type side struct {
	name  string
	store storage.Interface
	took  []time.Duration
	// tooOld and failed are answers without a write that was acknowledged before, and errors.
	tooOld, failed int
}

// openSides are upstream's storage and rvfloor's over a hundred pods.
func openSides(t *testing.T, k *kines) (stock, ours *side) {
	t.Helper()
	writer := open(t, sides.Uncached, k.first())
	for range sides.Pods {
		if err := createPod(t.Context(), writer); err != nil {
			t.Fatal(err)
		}
	}
	return &side{name: "upstream", store: open(t, sides.Stock, k.last())}, &side{name: "rvfloor", store: open(t, k.rvfloor(), k.last())}
}

// createPod creates one of which nothing is said but that it is there.
func createPod(ctx context.Context, writer storage.Interface) error {
	pod := &example.Pod{}
	pod.Namespace, pod.Name = "default", unique()
	return writer.Create(ctx, sides.PodKey("default", pod.Name), pod, nil, 0)
}

// ask lists all pods at the newest, after a write that was acknowledged at the revision.
func (s *side) ask(ctx context.Context, acknowledged uint64) {
	sample := sides.Ask(ctx, sides.List(s.store, "", ""), acknowledged)
	s.took = append(s.took, sample.Took)
	switch {
	case sample.Err != nil:
		s.failed++
	case sample.Stale() || sample.Items != sides.Pods:
		s.tooOld++
	}
}

// at is a percentile.
func (s *side) at(percent float64) time.Duration {
	return sides.Percentile(slices.Sorted(slices.Values(s.took)), percent)
}

func (s *side) tell(t *testing.T) {
	t.Helper()
	slow := 0
	for _, took := range s.took {
		if took > time.Second {
			slow++
		}
	}
	t.Logf("%-9s %3d LISTs: p50 %v, p99 %v, longest %v; %d took over a second, %d failed, %d were too old",
		s.name, len(s.took), s.at(50), s.at(99), s.at(100), slow, s.failed, s.tooOld)
	if s.tooOld > 0 {
		t.Errorf("%s: %d answers were too old", s.name, s.tooOld)
	}
}

// TestElsewhere asks for a LIST right after a write to another resource.
func TestElsewhere(t *testing.T) {
	const rounds, warmUp = 100, 10
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		stock, ours := openSides(t, k)
		for round := range warmUp + rounds {
			for _, i := range rand.Perm(2) {
				revision, err := k.writeElsewhere(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				[]*side{stock, ours}[i].ask(t.Context(), revision)
			}
			if round+1 == warmUp {
				stock.took, ours.took = nil, nil
			}
		}
		stock.tell(t)
		ours.tell(t)
		ratio := float64(stock.at(50)) / float64(ours.at(50))
		t.Logf("p50 of upstream is %.0f times that of rvfloor", ratio)
		if ours.failed > 0 || ratio < 5 { // 30 on a machine that does nothing else
			t.Errorf("%d failed, or that is too little", ours.failed)
		}
	}, atLength(memory), sqlite)
}

// TestBursts asks for a LIST right after many concurrent writes to another resource: what
// kine says of progress may then stand below them until the next write.
func TestBursts(t *testing.T) {
	const bursts, writers, writes = 20, 16, 2
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		stock, ours := openSides(t, k)
		for range bursts {
			for _, side := range []*side{stock, ours} {
				side.ask(t.Context(), k.burst(t, writers, writes))
			}
		}
		stock.tell(t)
		ours.tell(t)
		if ours.failed > 0 || ours.at(99) > time.Second { // 200 ms on a machine that does nothing else
			t.Error("rvfloor: that is too long")
		}
	}, atLength(sqlite), postgres, atLength(postgreses))
}

// burst is the newest revision of writes by many at once, all acknowledged.
func (k *kines) burst(t *testing.T, writers, writes int) (newest uint64) {
	t.Helper()
	var writing sync.WaitGroup
	var mu sync.Mutex
	for range writers {
		writing.Go(func() {
			for range writes {
				revision, err := k.writeElsewhere(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				newest = max(newest, revision)
				mu.Unlock()
			}
		})
	}
	if writing.Wait(); t.Failed() {
		t.FailNow()
	}
	return newest
}
