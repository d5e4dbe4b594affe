package operations

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// faults are the columns of the table.
var faults = []struct {
	name  string
	etcd  etcdlab.Config
	begin func(*testing.T, *server)
	end   func(*testing.T, *server) // nil: nothing is to be healed
}{
	{name: "none", begin: func(*testing.T, *server) {}},
	{name: "down",
		begin: func(t *testing.T, s *server) {
			s.proxy.Cut()
			s.noticed(t)
		},
		end: func(_ *testing.T, s *server) { s.proxy.Heal() }},
	{name: "hangs",
		begin: func(_ *testing.T, s *server) { s.proxy.Hold() },
		end:   func(_ *testing.T, s *server) { s.proxy.Heal() }},
	{name: "minority", etcd: etcdlab.Config{Members: 3},
		begin: func(t *testing.T, s *server) {
			s.cluster.CutPeer(0)
			await(t, func() bool { return s.cluster.Member(0).Server.Leader() == 0 })
			s.noticed(t)
		},
		end: func(_ *testing.T, s *server) { s.cluster.MendPeer(0) }},
	{name: "slow", // a read needs up to two round trips, which fit in MaxWait
		begin: func(_ *testing.T, s *server) { s.proxy.Delay(s.maxWait / 20) },
		end:   func(_ *testing.T, s *server) { s.proxy.Heal() }},
	{name: "out of space",
		etcd:  etcdlab.Config{Tune: func(_ int, cfg *embed.Config) { cfg.QuotaBackendBytes = 256 << 10 }},
		begin: fill},
	{name: "compacted", begin: compact},
	{name: "credentials", begin: requireLogin},
}

// noticed waits until what goes to etcd hangs. Before its client has noticed a fault, or its
// member ("leader changed"), it may get a 500.
func (s *server) noticed(t *testing.T) {
	await(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), s.maxWait)
		defer cancel()
		err := s.store.Get(ctx, "/pods/default/a", storage.GetOptions{}, &example.Pod{})
		return err != nil && ctx.Err() != nil
	})
}

func fill(t *testing.T, s *server) {
	for range 100 {
		_, err := s.etcd.Put(t.Context(), "big", strings.Repeat("x", 64<<10))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("there is space without end")
}

func compact(t *testing.T, s *server) {
	now, err := s.etcd.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.etcd.Compact(t.Context(), now.Header.Revision); err != nil {
		t.Fatal(err)
	}
}

// requireLogin makes etcd refuse the API server, which has no name and no certificate.
func requireLogin(t *testing.T, s *server) {
	ctx := t.Context()
	for _, err := range []error{
		second(s.etcd.UserAdd(ctx, "root", "secret")),
		second(s.etcd.UserGrantRole(ctx, "root", "root")),
		second(s.etcd.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestTable produces every cell of the table in docs/operations.md.
func TestTable(t *testing.T) {
	want := table(t, "call")
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			s := start(t, fault.etcd)
			fault.begin(t, s)
			answers := make([]string, len(calls))
			var asked sync.WaitGroup
			for i, call := range calls {
				asked.Go(func() { answers[i] = s.ask(t, call.path) })
			}
			asked.Wait()
			for i, call := range calls {
				if said := want[call.name][fault.name]; answers[i] != said {
					t.Errorf("%s: answered %q, and docs/operations.md says %q", call.name, answers[i], said)
				}
			}
			if fault.end != nil {
				fault.end(t, s)
				list := func(*server) string { return "" }
				await(t, func() bool { return s.ask(t, list) == "200" })
			}
		})
	}
}

// table reads the documentation: what its table with this first column says in each row and
// column.
func table(t *testing.T, first string) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n| "+first+" |")
	if !found {
		t.Fatalf("docs/operations.md has no table of each %s", first)
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	lines := strings.Split("| "+first+" |"+rest, "\n")
	columns := cells(lines[0])
	said := map[string]map[string]string{}
	for _, line := range lines[2:] {
		row := cells(line)
		said[row[0]] = map[string]string{}
		for i, cell := range row[1:] {
			said[row[0]][columns[i+1]] = cell
		}
	}
	return said
}

func cells(line string) []string {
	var found []string
	for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
		found = append(found, strings.TrimSpace(cell))
	}
	return found
}
