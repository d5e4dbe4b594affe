package decorator

import (
	"math"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// Generation is a Store with the cache under it, as a Healing has it built.
type Generation struct {
	// Store is what answers. Required.
	Store *Store
	// Close ends it and all that was built for it. It is called once, when the last call
	// has ended, or with the Healing. Required.
	Close func()
}

// generation is one that calls go to, until it is retired.
type generation struct {
	Generation
	watches openWatches
	users   atomic.Int64  // calls under way; below 0: retired
	drained chan struct{} // closed when it is retired and the last call has ended
	drain   func()        // closes it, once
}

func newGeneration(g Generation) *generation {
	drained := make(chan struct{})
	return &generation{
		Generation: g,
		drained:    drained,
		drain:      sync.OnceFunc(func() { close(drained) }),
	}
}

// shut is Close, which may panic: then what it would have closed after that is left.
func (g *generation) shut() {
	if err := guard.Call(func() error { g.Close(); return nil }); err != nil {
		klog.ErrorS(err, "What was built for a watch cache could not be closed", "resource", g.Store.resource.GroupResource, "stack", guard.Stack(err))
	}
}

// enter is false when the generation is retired. Else the caller leaves it.
func (g *generation) enter() bool {
	if g.users.Add(1) > 0 {
		return true
	}
	g.leave()
	return false
}

func (g *generation) leave() { g.add(-1) }

// retire lets nobody enter any more.
func (g *generation) retire() { g.add(math.MinInt64) }

func (g *generation) add(n int64) {
	if g.users.Add(n) == math.MinInt64 {
		g.drain() // or somebody came late
	}
}
