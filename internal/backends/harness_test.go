package backends_test

import (
	"testing"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// newHarness is an API server's storage over one process of a database, and a writer
// over another, without faults.
func newHarness(t *testing.T, m mode) decoratortest.Harness {
	t.Helper()
	database := newStore(t, m.config)
	good, server := serve(t, database, fdbshim.Faults{}), serve(t, database, m.faults)
	h := &backends.EtcdHarness{Client: connect(t, good), Harness: backends.Harness{
		Raw: open(t, sides.Uncached, good), Decorated: open(t, decorated(m.strategy), server), Gate: &server.Watches,
	}}
	t.Cleanup(h.ReleaseWatch)
	if m.strategy == decorator.StrategyDirect {
		return directHarness{h}
	}
	return h
}

// directHarness is one whose Store asks no cache.
type directHarness struct{ *backends.EtcdHarness }

// WhyNoStateWatches is that of a decoratortest.NoStateWatches.
func (directHarness) WhyNoStateWatches() string { return "the strategy is direct" }
