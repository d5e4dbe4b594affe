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
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/progress"
)

// One resource over etcd, with the order that matters: the watcher before the raw storage, the feed before the cache.
func Example() {
	_ = func(client *kubernetes.Client, gr schema.GroupResource, prefix string, codec runtime.Codec, newFunc, newList func() runtime.Object) (storage.Interface, error) {
		versioner := storage.APIObjectVersioner{}
		backend, err := decorator.NewBackend(decorator.Config{
			Source: freshness.NewSentinel(client.Client, "/registry/rvfloor/sentinel"),
		})
		if err != nil {
			return nil, err
		}
		client.Client.Watcher = progress.NewWatcher(client.Client) // before etcd3.New
		raw, err := etcd3.New(client, nil, codec, newFunc, newList, "/registry", prefix, gr, identity.NewEncryptCheckTransformer(),
			etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, versioner), versioner)
		if err != nil {
			return nil, err
		}
		res := decorator.Resource{GroupResource: gr, Prefix: prefix, NewList: newList, Raw: raw, SharesItems: true, SharesLists: true}
		res.Feed, err = backend.Feed(raw, res)
		if err != nil {
			return nil, err
		}
		cache, err := cacher.NewCacherFromConfig(cacher.Config{Storage: res.Feed, Versioner: versioner, GroupResource: gr,
			ResourcePrefix: prefix, EventsHistoryWindow: cacher.DefaultEventFreshDuration, Codec: codec,
			KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
			GetAttrsFunc: storage.DefaultNamespaceScopedAttr, NewFunc: newFunc, NewListFunc: newList})
		if err != nil {
			return nil, err
		}
		store, err := backend.Wrap(cacher.NewCacheDelegator(cache, raw), res)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
}
