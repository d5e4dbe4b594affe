package probe_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator/probe"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestRun is how the author of a shim uses it.
func TestRun(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	one, another := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{}), etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	probe.Run(t, probe.Config{Clients: []*clientv3.Client{one, another}})
}

// recorder is a test that keeps what is said.
type recorder struct {
	ctx  context.Context
	name string
	said *[]string
}

func (recorder) Helper()                    {}
func (r recorder) Context() context.Context { return r.ctx }
func (r recorder) Run(name string, f func(recorder)) bool {
	r.name = name
	f(r)
	return true
}
func (r recorder) Errorf(string, ...any) { *r.said = append(*r.said, "failed "+r.name) }
func (r recorder) Fatalf(string, ...any) { *r.said = append(*r.said, "fatal "+r.name) }
func (r recorder) Logf(string, ...any)   {}
func (r recorder) Skipf(string, ...any)  { *r.said = append(*r.said, "skipped "+r.name) }

// TestRunFails: what could not be seen fails, and so does the whole.
func TestRunFails(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("never mind"))
	cluster := etcdlab.Run(t, etcdlab.Config{})
	one, another := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{}), etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	var said []string
	probe.Run(recorder{ctx: ctx, said: &said}, probe.Config{Clients: []*clientv3.Client{one, another}, Limit: time.Minute})
	for _, want := range []string{"failed linearizable_floor", "failed progress_ordered", "failed filters_work", "skipped created_revision", "failed "} {
		if !slices.Contains(said, want) {
			t.Errorf("got %q, want %q among it", said, want)
		}
	}
}
