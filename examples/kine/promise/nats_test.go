//go:build nats

package promise

import (
	"errors"
	"testing"
	"time"

	"github.com/k3s-io/kine/pkg/drivers/nats/server"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/sides"
)

var natses = backend{name: "nats, two kines", processes: 2, database: inNATS}

func init() {
	tagged = []subject{{name: "kine 0.17.5, NATS, two kines", start: overKine(natses)}}
}

// inNATS is a server as kine embeds it, outside of kine: each process keeps the revision in
// memory as it learns of it, so two of them are needed to see that they differ.
func inNATS(t *testing.T) (dsn string) {
	t.Helper()
	nats, err := server.New(&server.Config{Host: "127.0.0.1", DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(nats.Shutdown)
	for until := time.Now().Add(patience); !nats.Ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("NATS does not become ready")
		}
	}
	return nats.ClientURL() + "?noEmbed"
}

// TestNATS: the floor of kine on NATS is not linearizable. Ten probes of ten say so, and
// reads are refused.
func TestNATS(t *testing.T) {
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		for i := range 10 {
			report := verdict(t, k)
			floor := report.Finding("linearizable_floor")
			t.Logf("probe %d, %v ms: %s: %s", i, report.TookMillis, floor.Seen, floor.Example)
			if floor.Verdict != decorator.VerdictNo || report.Strategies != nil || report.Safe() != decorator.VerdictNo {
				t.Errorf("probe %d: %s is %s, strategies %v (%s) %s", i, floor.Property, floor.Verdict, report.Strategies, report.Reason, report.Problem)
			}
		}
		store := open(t, k.rvfloor(), k.first(), k.last())
		for version, call := range map[string]sides.Call{"": sides.List(store, "", ""), "0": sides.List(store, "", "0")} {
			if got, err := call(t.Context()); !errors.Is(err, decorator.ErrRefused) {
				t.Errorf("LIST at %q: %+v, %v", version, got, err)
			}
		}
	}, natses)
}
