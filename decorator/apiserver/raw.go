package apiserver

import (
	"fmt"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// checkType refuses what the storage factory refuses: only etcd3, which is also what an empty type means.
func checkType(c *storagebackend.ConfigForResource) error {
	switch c.Type {
	case storagebackend.StorageTypeUnset, storagebackend.StorageTypeETCD3:
		return nil
	default:
		return fmt.Errorf("storage type %q of %s is not supported: use %q", c.Type, c.GroupResource, storagebackend.StorageTypeETCD3)
	}
}

// newRawStorage makes the etcd3 storage of one resource over a client that the caller owns, and answers what ends the
// storage (not the client). It is what the storage factory makes: without a transformer stored data that was encrypted is
// refused instead of being decoded as it is; under the gate AllowUnsafeMalformedObjectDeletion the errors of data that
// cannot be read are marked on their way through transformer and decoder, and a wrapper around the storage makes of them
// what an unsafe deletion looks for.
func newRawStorage(client *kubernetes.Client, compactor etcd3.Compactor, c *storagebackend.ConfigForResource,
	newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, func(), error) {

	transformer := c.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(c.Codec, versioner)
	tolerant := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if tolerant {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := etcd3.New(client, compactor, c.Codec, newFunc, newListFunc, c.Prefix, resourcePrefix, c.GroupResource,
		transformer, c.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		return nil, nil, err
	}
	if tolerant {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, c.GroupResource), store.Close, nil
	}
	return store, store.Close, nil
}
