package apiserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/tools/cache"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/watchcache"
	"github.com/rvfloor/rvfloor/progress"
)

// spec is what an API server says of one resource: the arguments of a generic.StorageDecorator.
type spec struct {
	config               *storagebackend.ConfigForResource
	prefix               string
	keyFunc              func(runtime.Object) (string, error)
	newFunc, newListFunc func() runtime.Object
	attrs                storage.AttrFunc
	triggers             storage.IndexerFuncs
	indexers             *cache.Indexers
}

// validate names what an API server has to say. Whatever else is missing is refused by the layer that needs it.
func (s spec) validate() error {
	switch {
	case s.config == nil:
		return errors.New("apiserver: a resource has no storage config; set RESTOptions.StorageConfig")
	case s.newFunc == nil || s.newListFunc == nil || s.keyFunc == nil:
		return fmt.Errorf("apiserver: %s lacks a function for a new object, a new list or an object's key; pass all three to the StorageDecorator", s.config.GroupResource)
	}
	return checkType(s.config)
}

// resource is the composed storage of one resource.
type resource struct {
	transport *transport
	layers    layers
	store     *decorator.Healing
	// destroy ends the layers, once: API servers call it for each subresource that shares the storage.
	destroy func()
}

// layers are ended in the reverse of the order in which they were made.
type layers []layer

type layer struct {
	name string
	end  func()
}

func (l *layers) add(name string, end func()) { *l = append(*l, layer{name: name, end: end}) }

func (l layers) end() {
	for _, layer := range slices.Backward(l) {
		layer.end()
	}
}

func newResource(t *transport) *resource {
	r := &resource{transport: t}
	r.destroy = sync.OnceFunc(func() { r.layers.end() })
	return r
}

// compose builds the storage of one resource over its transport, which is open. After an error the caller destroys it.
//
// Each layer needs the ones before it, and one of the steps is bound to its place: the watcher is in the client before
// etcd3 sees it, because etcd3 keeps the client and opens watches in its own time, out of reach. Callers see the last layer
// alone, which package watchcache builds, and builds again when what it holds is lost.
func (r *resource) compose(s spec) error {
	t := r.transport
	if err := checkSentinel(t.sentinel, s); err != nil {
		return err
	}
	pooled, giveBack := t.clients.take()
	r.layers.add("connection", giveBack)

	// Untagged watches would go over the floors' connection too, but a raw storage below a feed has none: the feed tags the
	// cache's, and nobody else watches it.
	client := newStoreClient(pooled, progress.NewWatcherOver(t.clients.floor, t.clients.streams))
	r.layers.add("client", func() { _ = client.Close() }) // closes the watcher; the error is that its context has ended

	compaction, stop := t.compactor.acquire(s.config.CompactionInterval)
	r.layers.add("compactor", stop)

	raw := func() (storage.Interface, func(), error) {
		return newRawStorage(client, compaction, s.config, s.newFunc, s.newListFunc, s.prefix)
	}
	store, err := watchcache.Heal(t.backend, raw, cacheConfig(s), watchcache.Options{Prove: prover(client.KV, objectsPrefix(s)), SharesLists: true})
	if err != nil {
		return err
	}
	r.store = store
	r.layers.add("healing", store.Close)
	return nil
}

// checkSentinel refuses a sentinel among a resource's objects: the storage could not decode it.
func checkSentinel(key string, s spec) error {
	objects := objectsPrefix(s)
	if strings.HasPrefix(key, objects) {
		return fmt.Errorf("apiserver: Config.SentinelKey %q lies among the objects of %s, under %q; use a key outside of all resources",
			key, s.config.GroupResource, objects)
	}
	return nil
}
