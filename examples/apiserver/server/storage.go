package server

import (
	"errors"

	genericserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	rvapiserver "github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
)

// etcdPrefix comes before every key of this server in etcd.
const etcdPrefix = "/demo.rvfloor.dev"

// applyStorage sets the storage of cfg to the etcd at endpoints, and puts
// rvfloor in front of its watch caches. What it returns is to be called when the
// server has stopped.
func applyStorage(cfg *genericserver.Config, endpoints []string, verified *rvapiserver.Options) (closeStorage func() error, err error) {
	// What any API server does.
	config := storagebackend.NewDefaultConfig(etcdPrefix, demo.Codecs.LegacyCodec(demo.GroupVersions...))
	config.EncodeVersioner = demo.GroupVersions
	config.Transport.ServerList = endpoints
	config.Transport.TracerProvider = cfg.TracerProvider
	etcd := genericoptions.NewEtcdOptions(config)
	if errs := etcd.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if err := etcd.ApplyTo(cfg); err != nil {
		return nil, err
	}

	// What rvfloor needs.
	backends, err := verified.ApplyTo(cfg, etcd)
	if err != nil {
		return nil, err
	}
	return backends.Close, nil
}
