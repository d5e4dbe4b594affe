package upstreamsuite

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/tools/cache"
)

// What every case stores, and where: upstream's checks have both built in.
const (
	// ResourcePrefix is the prefix of the keys that the checks hand to the store.
	ResourcePrefix = "/pods/"
	// PathPrefix is what the raw storage has to put before those keys in etcd; RunTestList expects it there.
	PathPrefix = "/registry"
)

// GroupResource names the resource of every case.
var GroupResource = schema.GroupResource{Resource: "pods"}

// NewPod and NewPodList make the empty objects of every case.
func NewPod() runtime.Object     { return &example.Pod{} }
func NewPodList() runtime.Object { return &example.PodList{} }

// SetupFunc builds the store under test for one case. It ends what it starts in t.Cleanup, and returns when the cache is ready:
// upstream's checks take a 429 for a failure. It is called with the case's feature gates already set.
type SetupFunc func(t testing.TB, opts SetupOptions) Setup

// SetupOptions is what one case asks of its store.
type SetupOptions struct {
	// KeyFunc gives an object's key under ResourcePrefix.
	KeyFunc func(runtime.Object) (string, error)
	// GetAttrs gives an object's labels and fields for selection.
	GetAttrs storage.AttrFunc
	// IndexerFuncs and Indexers are the cache's indexes; nil: none.
	IndexerFuncs storage.IndexerFuncs
	Indexers     cache.Indexers
	// Codec and Transformer stand between objects and what etcd stores. Some cases make them fail half way.
	Codec       runtime.Codec
	Transformer value.Transformer
	// Pristine says that the check has the revisions of its writes built in: they are the first that the cluster sees, so Store
	// must write nothing of its own. Otherwise it may have written, after its cache was filled and before SetupFunc returns.
	Pristine bool
}

// Setup is a store under test and what the suite has to know of it.
type Setup struct {
	// Store is the store under test.
	Store storage.Interface
	// Etcd is the cluster behind it, for this case alone. Store reaches it at Etcd's Endpoints and with Etcd's DialOptions,
	// and no other way.
	Etcd *Etcd
	// ZeroIsNewest says that Store answers resourceVersion "0" with the newest data, as the raw storage does, where the plain
	// cache answers with what it has.
	ZeroIsNewest bool
	// ContinueSyncs says that a list that goes on at the newest revision (a continue token with revision -1) brings Store's cache
	// up to date even where the cache keeps no snapshots. The plain cache then leaves such a list to etcd and stays behind.
	ContinueSyncs bool
}

func (s Setup) check(t testing.TB) {
	t.Helper()
	switch {
	case s.Store == nil:
		t.Fatal("Setup.Store is nil: return the store under test")
	case s.Etcd == nil:
		t.Fatal("Setup.Etcd is nil: return what StartEtcd gave")
	}
}
