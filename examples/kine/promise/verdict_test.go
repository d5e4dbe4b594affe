package promise

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
	"github.com/rvfloor/rvfloor/internal/backends"
)

// TestVerdict: ten probes of a kine say the same, and what is sound there.
func TestVerdict(t *testing.T) {
	want := map[string]decorator.Strategy{
		memory.name: decorator.StrategyRequest,
		sqlite.name: decorator.StrategyNudge, sqlites.name: decorator.StrategyNudge,
	}
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		for i := range 10 {
			report := verdict(t, k)
			t.Logf("probe %d, %v ms, %d writes: %s", i, report.TookMillis, report.Writes, report.Finding("progress_reaches").Seen)
			if report.Strategies[0] != want[b.name] || report.Problem != "" {
				t.Errorf("probe %d: %v: %s %s", i, report.Strategies, report.Reason, report.Problem)
			}
		}
	}, memory, sqlite, atLength(sqlites))
}

// verdict probes kines, through the first and the last.
func verdict(t *testing.T, k *kines) probe.Report {
	t.Helper()
	clients := []*clientv3.Client{backends.Connect(t, k.first()), backends.Connect(t, k.last())}
	report, err := probe.Observe(t.Context(), probe.Config{Clients: clients, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
