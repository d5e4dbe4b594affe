package apiserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/tracing"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
	"github.com/rvfloor/rvfloor/freshness"
)

// transport is what the resources of one etcd cluster, reached one way, share.
type transport struct {
	id        transportID
	name      string
	resources int // guarded by Backends.mu
	// open connects, once: who comes while somebody does waits for the outcome. What is below is set when it answers nil.
	open func() error
	// connected is set when it has answered nil, for who will not wait.
	connected atomic.Bool

	clients   *pool
	compactor *compactor
	backend   *decorator.Backend
	sentinel  string // its key; empty: none is written

	probed atomic.Pointer[probe.Report] // the newest; nil: none yet
}

func newTransport(ctx context.Context, id transportID, name string, cfg Config, c *storagebackend.ConfigForResource, extra ...grpc.DialOption) *transport {
	t := &transport{id: id, name: name}
	t.open = sync.OnceValue(func() error { return t.connect(ctx, cfg, c, extra...) })
	return t
}

func (t *transport) connect(ctx context.Context, cfg Config, c *storagebackend.ConfigForResource, extra ...grpc.DialOption) error {
	clients, err := newPool(ctx, c.Transport, cfg.EtcdClients, extra...)
	if err != nil {
		return err
	}
	policy := cfg.policy()
	policy.Name = t.name
	if policy.TracerProvider == nil {
		policy.TracerProvider = c.Transport.TracerProvider
	}
	if reflect.TypeOf(policy.TracerProvider) == reflect.TypeOf(tracing.NewNoopTracerProvider()) {
		policy.TracerProvider = nil // an API server without tracing has this one, whose spans cost memory
	}
	key, write := cfg.sentinelKey(c.Prefix)
	if write {
		t.sentinel = key
		policy.Source = sentinelSource{freshness.NewSentinel(clients.floor, key), key}
	} else {
		policy.Source = headerSource{client: clients.floor, key: key}
	}
	policy.Probe = t.prober(clients, key, write)
	backend, err := decorator.NewBackend(policy)
	if err != nil {
		return errors.Join(err, clients.close())
	}
	clients.conns.backend.Store(backend)
	t.clients, t.compactor, t.backend = clients, newCompactor(clients.shared[0]), backend
	t.connected.Store(true)
	return nil
}

// close ends what connect made. No resource uses it any more, and it was opened.
func (t *transport) close() error {
	return errors.Join(t.backend.Close(), t.clients.close())
}

// sentinelSource is a Sentinel that debug pages can name.
type sentinelSource struct {
	*freshness.Sentinel
	key string
}

func (s sentinelSource) String() string { return fmt.Sprintf("etcd key %s", s.key) }

// headerSource reads floors from the header of a linearizable Get of a key that need not exist, and writes nothing.
type headerSource struct {
	client *clientv3.Client
	key    string
}

func (h headerSource) String() string {
	return fmt.Sprintf("header of a read at etcd key %s, which is not written", h.key)
}

// PromptRead is freshness.PromptSource.
func (headerSource) PromptRead() {}

func (h headerSource) Read(ctx context.Context) (freshness.Reading, error) {
	resp, err := h.client.Get(ctx, h.key)
	if err != nil {
		return freshness.Reading{}, err
	}
	header := resp.Header
	return freshness.Reading{Revision: uint64(max(0, header.Revision)), ClusterID: header.ClusterId, MemberID: header.MemberId, RaftTerm: header.RaftTerm}, nil
}
