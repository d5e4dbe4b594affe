package decorator_test

import (
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/watchcache"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/progress"
)

// One resource over etcd: the watcher is in the client before a raw storage is made with it, and
// all else is put together by package watchcache.
func Example() {
	_ = func(client *kubernetes.Client, gr schema.GroupResource, prefix string, codec runtime.Codec, newFunc, newList func() runtime.Object) (storage.Interface, error) {
		versioner := storage.APIObjectVersioner{}
		client.Client.Watcher = progress.NewWatcher(client.Client) // before a storage is made with it
		backend, err := decorator.NewBackend(decorator.Config{
			Source: freshness.NewSentinel(client.Client, "/registry/rvfloor/sentinel"),
		})
		if err != nil {
			return nil, err
		}
		newRaw := func() (storage.Interface, func(), error) {
			raw, err := etcd3.New(client, nil, codec, newFunc, newList, "/registry", prefix, gr, identity.NewEncryptCheckTransformer(),
				etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, versioner), versioner)
			return raw, raw.Close, err
		}
		store, err := watchcache.Heal(backend, newRaw, cacher.Config{
			Versioner: versioner, GroupResource: gr, ResourcePrefix: prefix, Codec: codec,
			KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
			GetAttrsFunc: storage.DefaultNamespaceScopedAttr, NewFunc: newFunc, NewListFunc: newList,
		}, watchcache.Options{SharesLists: true})
		if err != nil {
			return nil, err
		}
		return store, nil
	}
}
