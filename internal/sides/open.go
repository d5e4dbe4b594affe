package sides

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
)

// Kind is what makes the storage of a side, and what ends it after all its
// storages: Stock, RVFloor, Strict, With or Uncached.
type Kind func() (generic.StorageDecorator, func() error, error)

// Stock is what an API server has without rvfloor.
func Stock() (generic.StorageDecorator, func() error, error) {
	return registry.StorageWithCacher(), func() error { return nil }, nil
}

// RVFloor is what an API server has with rvfloor as it comes.
func RVFloor() (generic.StorageDecorator, func() error, error) { return With(apiserver.Config{})() }

// Strict is RVFloor where a read whose cache is late fails, and is not answered by etcd.
func Strict() (generic.StorageDecorator, func() error, error) {
	return With(apiserver.Config{OnUnverified: "Fail"})()
}

// With is what an API server has with rvfloor, configured so.
func With(cfg apiserver.Config) Kind {
	return func() (generic.StorageDecorator, func() error, error) {
		backends, err := apiserver.New(cfg)
		if err != nil {
			return nil, nil, err
		}
		return backends.StorageDecorator(), backends.Close, nil
	}
}

// Uncached is upstream's storage without a cache.
func Uncached() (generic.StorageDecorator, func() error, error) {
	return generic.UndecoratedStorage, func() error { return nil }, nil
}

// Open is OpenAt behind a port.
func Open(ctx context.Context, kind Kind, port *Port) (storage.Interface, func() error, error) {
	return OpenAt(ctx, kind, port.Endpoint)
}

// OpenAt makes a storage of pods over an etcd and returns it, with what ends it, when
// its watch cache is filled and has all that it needs to answer.
func OpenAt(ctx context.Context, kind Kind, endpoints ...string) (storage.Interface, func() error, error) {
	return openPods(ctx, kind, true, endpoints)
}

// OpenOld is OpenAt for a backend that upstream never asks for progress, going by the
// version that it says it is.
func OpenOld(ctx context.Context, kind Kind, endpoints ...string) (storage.Interface, func() error, error) {
	return openPods(ctx, kind, false, endpoints)
}

func openPods(ctx context.Context, kind Kind, progress bool, endpoints []string) (storage.Interface, func() error, error) {
	stores, end, err := open(ctx, kind, progress, endpoints, Resource{})
	if err != nil {
		return nil, nil, err
	}
	return stores[0], end, nil
}

// Resource is one of those that an API server has. All are of pods. The zero Resource is
// the one that OpenAt opens.
type Resource struct {
	// Name is that of the resource, and of the folder in etcd in which its keys begin.
	Name        string
	Transformer value.Transformer // nil: none
}

// OpenResources is OpenAt for several resources of one API server.
func OpenResources(ctx context.Context, kind Kind, endpoints []string, resources ...Resource) ([]storage.Interface, func() error, error) {
	return open(ctx, kind, true, endpoints, resources...)
}

func open(ctx context.Context, kind Kind, progress bool, endpoints []string, resources ...Resource) (stores []storage.Interface, end func() error, err error) {
	decorate, endAll, err := kind()
	if err != nil {
		return nil, nil, err
	}
	var opened []func()
	end = func() error {
		for _, destroy := range slices.Backward(opened) {
			destroy()
		}
		return endAll()
	}
	for _, r := range resources {
		store, destroy, err := decorate(storageConfig(endpoints, r), PodPrefix, podKeyFunc, newPod, newPodList, PodAttrs, nil, nil)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		stores, opened = append(stores, store), append(opened, destroy)
	}
	for _, store := range stores {
		if err := awaitReady(ctx, store, progress); err != nil {
			return nil, nil, errors.Join(err, end())
		}
	}
	return stores, end, nil
}

// readyTimeout is far above what filling a cache of 100 objects takes.
const readyTimeout = 30 * time.Second

// awaitReady waits until the cache is filled, and with progress until upstream knows that
// etcd can be asked for it: before that it answers consistent reads from etcd.
// Neither can be waited for but by asking again.
func awaitReady(ctx context.Context, store storage.Interface, progress bool) error {
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, readyTimeout, true, func(context.Context) (bool, error) {
		return store.ReadinessCheck() == nil && (!progress || feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress)), nil
	})
	if err != nil {
		return fmt.Errorf("sides: the watch cache did not become ready: %w", err)
	}
	return nil
}
