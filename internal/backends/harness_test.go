package backends_test

import (
	"testing"

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
	return h
}
