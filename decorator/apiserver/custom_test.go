package apiserver

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// Custom resources are defined and deleted while another resource of their transport stays, and with it what is shared: what
// belongs to one of them goes when it goes.
func TestCustomResourcesLeaveNothing(t *testing.T) {
	etcd := startEtcd(t)
	var counters etcdlab.Counters
	registry := prometheus.NewRegistry()
	b := newBackends(t, Config{Registerer: registry})
	b.dialOptions = counters.DialOptions()
	getter := b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...)))
	stays := newRegistry(t, "pods", getter)
	list(t, stays)
	transport := b.connected()[0]

	var stores []weak.Pointer[decorator.Healing]
	comeAndGo := func(resource string) {
		r, err := tryRegistry(resource, getter)
		require.NoError(t, err)
		defer r.Destroy() // while it is watched
		stores = append(stores, weak.Make(decorated(t, r)))
		create(t, r, "a")
		assert.Equal(t, []string{"a"}, list(t, r))
		w, err := r.Watch(inNamespace(t.Context()), &metainternalversion.ListOptions{})
		require.NoError(t, err)
		<-w.ResultChan()
		assert.Len(t, transport.backend.Status().Resources, 2)
	}
	type inUse struct {
		streams           int64 // of watches, to etcd
		series, resources int
		clients           []int
	}
	look := func() inUse {
		return inUse{counters.Snapshot().WatchStreamsOpen, countSeries(t, registry), len(transport.backend.Status().Resources), slices.Sorted(slices.Values(transport.clients.stores))}
	}
	_, err := counters.Await(t.Context(), func(c etcdlab.Counts) bool { return c.WatchStreamsOpen == 2 }) // the cache's, and the compactor's
	require.NoError(t, err)
	before := look()
	comeAndGo("first")
	goroutines := goleak.IgnoreCurrent()
	for i := range 10 {
		comeAndGo(fmt.Sprintf("custom%d", i))
	}
	var after inUse
	assert.Eventually(t, func() bool { after = look(); return assert.ObjectsAreEqual(before, after) }, wait, tick)
	assert.Equal(t, before, after)
	goleak.VerifyNone(t, goroutines)
	assert.Eventually(t, func() bool {
		runtime.GC()
		return !slices.ContainsFunc(stores, func(s weak.Pointer[decorator.Healing]) bool { return s.Value() != nil })
	}, wait, tick, "nothing refers to a Store that is gone, nor to its stream and its floor")
	list(t, stays)
}
