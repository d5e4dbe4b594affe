//go:build linux

package apiserver

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/awake"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// destinations notes where calls went. It goes in as a stats handler.
type destinations struct {
	mu    sync.Mutex
	watch string         // of the newest watch
	reads map[string]int // by address
}

func (d *destinations) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (d *destinations) HandleRPC(_ context.Context, s stats.RPCStats) {
	header, ok := s.(*stats.OutHeader)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch addr := header.RemoteAddr.String(); header.FullMethod {
	case "/etcdserverpb.Watch/Watch":
		d.watch = addr
	case "/etcdserverpb.KV/Range":
		d.reads[addr]++
	}
}

func (d *destinations) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (d *destinations) HandleConn(context.Context, stats.ConnStats) {}

func (d *destinations) watched() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watch
}

func (d *destinations) readsAt(addr string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads[addr]
}

// TestMemberIsLeft lets the member that serves the watch of a cache stop to answer while its connections stay open. Reads
// have to be right again in 5 s of the time in which this process runs, none may be stale, and who watches through the cache gets each event once.
func TestMemberIsLeft(t *testing.T) {
	for _, test := range []struct {
		name       string
		leads      bool
		stop, mend func(c *etcdlab.Processes, member int) error
	}{
		{"frozen", false, (*etcdlab.Processes).Freeze, (*etcdlab.Processes).Thaw},
		{"frozen leader", true, (*etcdlab.Processes).Freeze, (*etcdlab.Processes).Thaw},
		{"in the minority", false,
			func(c *etcdlab.Processes, member int) error { c.CutPeer(member); return nil },
			func(c *etcdlab.Processes, member int) error { c.MendPeer(member); return nil }},
		{"slow", false,
			func(c *etcdlab.Processes, member int) error { c.Proxy(member).Delay(2 * time.Second); return nil },
			func(c *etcdlab.Processes, member int) error { c.Proxy(member).Heal(); return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
			etcd := etcdlab.RunProcesses(t, etcdlab.Config{Members: 3})
			to := &destinations{reads: map[string]int{}}
			registry := prometheus.NewRegistry()
			b := newBackends(t, Config{Registerer: registry, Strategy: decorator.StrategyRequest}) // a probe has watches too
			b.dialOptions = []grpc.DialOption{grpc.WithStatsHandler(to)}
			r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), podPrefix))
			require.NoError(t, err)
			read(t, r, podPrefix)

			addr := to.watched()
			member := slices.IndexFunc(etcd.Endpoints(), func(e string) bool { return strings.HasSuffix(e, addr) })
			require.NotEqual(t, -1, member, "%q", addr)
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			leader := member
			if !test.leads {
				leader = (member + 1) % 3
			}
			require.NoError(t, etcd.MoveLeader(ctx, leader))
			others := upstream.mustOpen(t, storageConfig(slices.Delete(etcd.Endpoints(), member, member+1)...))
			first := setThrough(t, others, "a", func(string) string { return "0" })
			events, err := r.store.Watch(ctx, podPrefix+"/", storage.ListOptions{ResourceVersion: first, Recursive: true, Predicate: everything})
			require.NoError(t, err)
			defer events.Stop()
			values := make(chan string, 10_000) // all: a watch that is not read from is ended
			go func() {
				defer close(values)
				for event := range events.ResultChan() {
					pod := event.Object.(runtime.CacheableObject).GetObject().(*example.Pod)
					values <- string(event.Type) + " " + pod.Labels["value"]
				}
			}()
			read(t, r, podPrefix)

			require.NoError(t, test.stop(etcd, member))
			clock := awake.Start()
			defer clock.Stop()
			if test.leads {
				_, err := etcd.WaitLeader(ctx, member)
				require.NoError(t, err)
			}
			n, failed := 0, 0
			writeAndRead := func() bool {
				n++
				value := strconv.Itoa(n)
				setThrough(t, others, "a", func(string) string { return value })
				state, err := stateOf(ctx, r.store, []string{"", "0"}[n%2])
				if err != nil {
					failed++
					require.Less(t, clock.Now(), 5*time.Second, "reads fail: %v", err)
					return false
				}
				require.Equal(t, map[string]string{"a": value}, state, "stale")
				return true
			}
			for !writeAndRead() {
			}
			again := clock.Now()
			for range 20 {
				require.True(t, writeAndRead(), "reads fail again")
			}
			t.Logf("right again after %v, %d reads failed; 20 more took %v", again, failed, clock.Now()-again)
			assert.NotEqual(t, addr, to.watched())
			// etcd itself ends the watches of a member without a leader, and the cache opens another.
			assert.Eventually(t, func() bool {
				return test.name == "in the minority" || counted(t, registry, "rvfloor_stream_reopens_total", "reconnected") > 0
			}, wait, tick, "the watch goes on elsewhere")

			require.NoError(t, test.mend(etcd, member))
			before := to.readsAt(addr)
			require.Eventually(t, func() bool { return writeAndRead() && to.readsAt(addr) > before }, wait, 20*tick, "the member is not used again")
			for want := 1; want <= n; want++ {
				require.Equal(t, "MODIFIED "+strconv.Itoa(want), <-values)
			}
		})
	}
}

// counted adds up the series of a counter that have the value in one of their labels.
func counted(t *testing.T, registry *prometheus.Registry, name, value string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == name && slices.ContainsFunc(series.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == value }) {
				sum += series.GetCounter().GetValue()
			}
		}
	}
	return sum
}
