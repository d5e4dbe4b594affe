package probe

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/decorator/strategy"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// clientsOf are two of an endpoint.
func clientsOf(t *testing.T, endpoint string) []*clientv3.Client {
	t.Helper()
	clients := make([]*clientv3.Client, 2)
	for i := range clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		clients[i] = client
	}
	return clients
}

// TestVersions: ten probes of an etcd say the same. Of those that Kubernetes runs on all is
// good. Progress of Debian's overtakes events, each time, and all else is good; so verified
// reads are safe without progress.
func TestVersions(t *testing.T) {
	for name, test := range map[string]struct {
		run      func(*testing.T) string
		ordered  strategy.Verdict
		strategy strategy.Name
		build    bool
	}{
		"3.4.23": {func(t *testing.T) string { return etcdlab.RunDebian(t) }, strategy.VerdictNo, strategy.RangeProof, false},
		"3.5":    {func(t *testing.T) string { return etcdlab.RunBuilt(t, "etcd-3.5") }, strategy.VerdictYes, strategy.Request, true},
		"3.6":    {func(t *testing.T) string { return etcdlab.RunBuilt(t, "etcd-3.6") }, strategy.VerdictYes, strategy.Request, true},
		"3.7":    {func(t *testing.T) string { return etcdlab.Run(t, etcdlab.Config{}).Endpoints()[0] }, strategy.VerdictYes, strategy.Request, false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.build && testing.Short() {
				t.Skip("building it takes longer than -short allows")
			}
			clients := clientsOf(t, test.run(t))
			for i := range 10 {
				report, err := Observe(t.Context(), Config{Clients: clients, Limit: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range report.Findings {
					want := strategy.VerdictYes
					if f.Property == progressOrdered {
						want = test.ordered
					}
					if f.Verdict != want {
						t.Errorf("probe %d: %s is %s: %s: %s", i, f.Property, f.Verdict, f.Seen, f.Example)
					}
				}
				if report.Problem != "" || report.Safe() != strategy.VerdictYes || report.Strategies[0] != test.strategy {
					t.Errorf("probe %d: got %v, %v: %s %s", i, report.Safe(), report.Strategies, report.Reason, report.Problem)
				}
			}
		})
	}
}
