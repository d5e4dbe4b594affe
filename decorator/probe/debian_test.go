package probe

import (
	"os/exec"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// debianEtcd runs Debian's etcd-server, and skips the test where there is none.
func debianEtcd(t *testing.T) []*clientv3.Client {
	binary, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("NO ETCD BINARY FOUND, NOTHING WAS TESTED: apt-get install etcd-server gives 3.4.23, whose progress overtakes events")
	}
	endpoint, version := etcdlab.RunBinary(t, binary)
	if version != "3.4.23" {
		t.Skipf("THE ETCD BINARY IS %s, NOTHING WAS TESTED: Debian's etcd-server 3.4.23 is known to let progress overtake events", version)
	}
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

// TestDebianEtcd: its progress overtakes events, each time, and all else is good; so
// verified reads are safe without progress.
func TestDebianEtcd(t *testing.T) {
	clients := debianEtcd(t)
	for range 3 {
		report, err := Observe(t.Context(), Config{Clients: clients, Limit: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			want := decorator.VerdictYes
			if f.Property == progressOrdered {
				want = decorator.VerdictNo
			}
			if f.Verdict != want {
				t.Errorf("%s is %s: %s: %s", f.Property, f.Verdict, f.Seen, f.Example)
			}
		}
		if report.Problem != "" || report.Safe() != decorator.VerdictYes || report.Strategies[0] != decorator.StrategyRangeProof {
			t.Errorf("got %v, %v: %s %s", report.Safe(), report.Strategies, report.Reason, report.Problem)
		}
	}
}
