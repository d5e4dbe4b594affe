package decoratortest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/progress"
)

// folders keeps the harnesses over one etcd apart.
var folders atomic.Int64

func newFolder() string { return fmt.Sprintf("/registry%d", folders.Add(1)) }

// overEtcd is a harness over a folder of an etcd. Its writer has a client of its own.
type overEtcd struct {
	podHarness
	client *clientv3.Client
	folder string
}

func newOverEtcd(t *testing.T, cluster *etcdlab.Cluster) *overEtcd {
	t.Helper()
	h := &overEtcd{client: etcdlab.Connect(t, cluster, etcdlab.ClientConfig{}), folder: newFolder()}
	h.writer = h.raw(t, h.client)
	return h
}

// raw is upstream's storage of pods over a client.
func (h *overEtcd) raw(t *testing.T, client *clientv3.Client) storage.Interface {
	t.Helper()
	k := &kubernetes.Client{Client: client}
	k.Kubernetes = k
	versioner := storage.APIObjectVersioner{}
	raw, err := etcd3.New(k, nil, codec, newPod, newPods, h.folder, prefix, pods, identity.NewEncryptCheckTransformer(),
		etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return raw
}

func (h *overEtcd) DeleteTogether(ctx context.Context, keys ...string) error {
	var ops []clientv3.Op
	for _, key := range keys {
		ops = append(ops, clientv3.OpDelete(h.folder+key))
	}
	_, err := h.client.Txn(ctx).Then(ops...).Commit()
	return err
}

func (h *overEtcd) WriteElsewhere(ctx context.Context) (uint64, error) {
	resp, err := h.client.Put(ctx, "/elsewhere", "")
	if err != nil {
		return 0, err
	}
	return uint64(resp.Header.Revision), nil
}

// composed is a harness of the parts of package decorator over etcd.
type composed struct {
	*overEtcd
	holders
}

func newComposed(t *testing.T, cluster *etcdlab.Cluster, withFeed bool) *composed {
	t.Helper()
	h := &composed{overEtcd: newOverEtcd(t, cluster)}
	client := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	source := freshness.NewSentinel(client, h.folder+"-sentinel")
	if withFeed {
		client.Watcher = progress.NewWatcher(client)
	}
	h.store, h.holders = compose(t, h.raw(t, client), source, withFeed)
	return h
}

// composedFeedless does not promise whole revisions.
type composedFeedless struct{ *composed }

func (composedFeedless) WhyPartial() string { return "its cache has no Feed" }

// bare has the methods of Harness and no others.
type bare struct{ decoratortest.Harness }

// ofAPIServer is a harness of what package apiserver wires, and of nothing else. So
// the watch of its cache is held in etcd itself.
type ofAPIServer struct {
	*overEtcd
	*watchGate
}

func newOfAPIServer(t *testing.T, cluster *etcdlab.Cluster, gate *watchGate) *ofAPIServer {
	t.Helper()
	h := &ofAPIServer{overEtcd: newOverEtcd(t, cluster), watchGate: gate}
	backends, err := apiserver.New(apiserver.Config{Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backends.Close(); err != nil {
			t.Error(err)
		}
	})
	config := storagebackend.NewDefaultConfig(h.folder, codec)
	config.Transport.ServerList = cluster.Endpoints()
	h.store, _, err = backends.StorageDecorator()(config.ForResource(pods), prefix,
		func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
		newPod, newPods, storage.DefaultNamespaceScopedAttr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// watchGate holds back what an etcd sends on any watch.
type watchGate struct {
	mu   sync.Mutex
	open chan struct{} // closed unless it is held
}

func newWatchGate() *watchGate {
	g := &watchGate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *watchGate) HoldWatch() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *watchGate) ReleaseWatch() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// tune puts the gate into a member.
func (g *watchGate) tune(_ int, cfg *embed.Config) {
	cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions, grpc.ChainStreamInterceptor(
		func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			if info.FullMethod == "/etcdserverpb.Watch/Watch" {
				stream = gatedStream{stream, g}
			}
			return handle(srv, stream)
		}))
}

type gatedStream struct {
	grpc.ServerStream
	gate *watchGate
}

func (s gatedStream) SendMsg(m any) error {
	s.gate.mu.Lock()
	open := s.gate.open
	s.gate.mu.Unlock()
	select {
	case <-open:
		return s.ServerStream.SendMsg(m)
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

func TestOverEtcd(t *testing.T) {
	gate := newWatchGate()
	cluster := etcdlab.Run(t, etcdlab.Config{Tune: gate.tune})
	for name, newHarness := range map[string]func(t *testing.T) decoratortest.Harness{
		"Composed":  func(t *testing.T) decoratortest.Harness { return newComposed(t, cluster, true) },
		"Feedless":  func(t *testing.T) decoratortest.Harness { return composedFeedless{newComposed(t, cluster, false)} },
		"APIServer": func(t *testing.T) decoratortest.Harness { return newOfAPIServer(t, cluster, gate) },
		"Bare":      func(t *testing.T) decoratortest.Harness { return bare{newComposed(t, cluster, true)} },
	} {
		t.Run(name, func(t *testing.T) { decoratortest.Run(t, newHarness) })
	}
}
