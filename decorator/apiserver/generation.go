package apiserver

import (
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
)

// cacheConfig is upstream's of the watch cache of a resource.
func cacheConfig(s spec) cacher.Config {
	return cacher.Config{
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       s.config.GroupResource,
		EventsHistoryWindow: s.config.EventsHistoryWindow,
		ResourcePrefix:      s.prefix,
		KeyFunc:             s.keyFunc,
		NewFunc:             s.newFunc,
		NewListFunc:         s.newListFunc,
		GetAttrsFunc:        s.attrs,
		IndexerFuncs:        s.triggers,
		Indexers:            s.indexers,
		Codec:               s.config.Codec,
	}
}
