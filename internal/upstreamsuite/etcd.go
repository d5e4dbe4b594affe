package upstreamsuite

import (
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// Etcd is a cluster of one member, for one case: the checks count revisions, so nobody else may write to it.
type Etcd struct {
	direct   *clientv3.Client // the test's own, past the link
	cluster  *etcdlab.Cluster
	recorder *storagetesting.KubernetesRecorder
	options  []grpc.DialOption
}

// StartEtcd starts a cluster that ends with the test.
func StartEtcd(t testing.TB) *Etcd {
	t.Helper()
	cluster := etcdlab.Run(t, etcdlab.Config{Proxy: true})
	direct, err := clientv3.New(clientv3.Config{
		Endpoints: []string{cluster.Member(0).Config().ListenClientUrls[0].String()},
		Logger:    zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = direct.Close() })
	recorder, options := recording()
	return &Etcd{direct: direct, cluster: cluster, recorder: recorder, options: options}
}

// Endpoints lead to the cluster over the link, which a case may cut.
func (e *Etcd) Endpoints() []string { return e.cluster.Endpoints() }

// DialOptions are what every client of the store under test needs beyond its own: they record what it lists.
func (e *Etcd) DialOptions() []grpc.DialOption { return slices.Clone(e.options) }

// NewClient gives a client over the link and with DialOptions, closed with the test.
func (e *Etcd) NewClient(t testing.TB) *kubernetes.Client {
	t.Helper()
	client := &kubernetes.Client{Client: etcdlab.Connect(t, e.cluster, etcdlab.ClientConfig{DialOptions: e.DialOptions()})}
	client.Kubernetes = client // it answers the interface itself; this is what kubernetes.New does
	return client
}

// link stands between the store under test and the cluster.
func (e *Etcd) link() *etcdlab.Proxy { return e.cluster.Proxy(0) }
