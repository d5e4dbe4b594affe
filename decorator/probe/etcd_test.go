package probe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/decorator/strategy"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEtcd: of etcd everything is good, and neither a key nor a watch is left.
func TestEtcd(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	var counters etcdlab.Counters
	one := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{Counters: &counters})
	another := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{Counters: &counters})
	report := Run(t, Config{Clients: []*clientv3.Client{one, another}, Limit: time.Minute})
	if report.Safe() != strategy.VerdictYes || len(report.Strategies) == 0 || report.Strategies[0] != strategy.Request {
		t.Errorf("safe: %s, by %v: %s", report.Safe(), report.Strategies, report.Reason)
	}
	all := one.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV())
	now, err := one.Get(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for seen := int64(0); seen < now.Header.Revision; {
		for _, e := range (<-all).Events {
			seen = e.Kv.ModRevision
			key := string(e.Kv.Key)
			if keys[key] = e.IsCreate() || e.IsModify(); !strings.HasPrefix(key, "/registry/rvfloor/probe/") {
				t.Errorf("%s was written", key)
			}
		}
	}
	for key, there := range keys {
		if there {
			t.Errorf("%s is left", key)
		}
	}
	if len(keys) == 0 {
		t.Error("nothing was written")
	}
	if open := counters.Snapshot().WatchStreamsOpen; open != 1 { // of this test
		t.Errorf("%d watch streams are left", open-1)
	}
}

// TestThreeMembers: the floor comes from one member, and the watch is on another.
func TestThreeMembers(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{Members: 3})
	var clients []*clientv3.Client
	for i := range 3 {
		clients = append(clients, etcdlab.Connect(t, cluster, etcdlab.ClientConfig{Members: []int{i}}))
	}
	Run(t, Config{Clients: clients, Limit: time.Minute})
}

// TestUnreachable: nothing is known, and the reason is told in time.
func TestUnreachable(t *testing.T) {
	clients := make([]*clientv3.Client, 2)
	for i := range clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix:///nowhere"}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients[i] = client
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a guard: the limit is what counts
	defer cancel()
	report, err := Observe(ctx, Config{Clients: clients, Limit: 100 * time.Millisecond})
	if err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	if report.Safe() != strategy.VerdictUnsure || report.Properties != (strategy.Properties{}) || report.Problem == "" || report.Refused() {
		t.Errorf("got %s, %+v, %q", report.Safe(), report.Properties, report.Problem)
	}
}

// TestNoPermission: a role that may not write under the prefix leaves everything unsure.
func TestNoPermission(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	root := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	ctx := t.Context()
	_, roleErr := root.RoleAdd(ctx, "reader")
	_, grantErr := root.RoleGrantPermission(ctx, "reader", "/", "0", clientv3.PermissionType(clientv3.PermRead))
	_, userErr := root.UserAdd(ctx, "reader", "secret")
	_, giveErr := root.UserGrantRole(ctx, "reader", "reader")
	_, rootErr := root.UserAdd(ctx, "root", "secret")
	_, allErr := root.UserGrantRole(ctx, "root", "root")
	_, onErr := root.AuthEnable(ctx)
	if err := errors.Join(roleErr, grantErr, userErr, giveErr, rootErr, allErr, onErr); err != nil {
		t.Fatal(err)
	}
	clients := make([]*clientv3.Client, 2)
	for i := range clients {
		client, err := clientv3.New(clientv3.Config{Endpoints: root.Endpoints(), Username: "reader", Password: "secret", Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients[i] = client
	}
	report, err := Observe(ctx, Config{Clients: clients, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(report.Err, rpctypes.ErrPermissionDenied) || !report.Refused() || report.Safe() != strategy.VerdictUnsure || report.Strategies[0] != strategy.Direct {
		t.Errorf("got %q, %s, %v", report.Problem, report.Safe(), report.Strategies)
	}
}

// TestConfig: what is wrong is named, and nothing is sent.
func TestConfig(t *testing.T) {
	clients := make([]*clientv3.Client, 2) // would panic
	for want, cfg := range map[string]Config{
		"Clients": {Clients: clients[:1]},
		"Prefix":  {Clients: clients, Prefix: "/registry"},
		"Limit":   {Clients: clients, Limit: -1},
		"Effort":  {Clients: clients, Effort: -1},
	} {
		if _, err := Observe(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}
