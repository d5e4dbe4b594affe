package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
)

// sideSpec says what a side is.
type sideSpec struct {
	name string
	// fresh: an answer must reflect every write acknowledged before the call.
	fresh bool
	// items is what every answer must hold.
	items int
	open  opener
}

// opener connects a side to its address, and answers what it is asked by and what
// ends it, once each has all that it needs to answer.
type opener func(ctx context.Context, endpoint string) (call, func() error, error)

// side is an open side.
type side struct {
	sideSpec
	call  call
	end   func() error
	meter *meter
}

// openSides opens all or none.
func openSides(ctx context.Context, l *lab, specs []sideSpec) ([]*side, error) {
	var sides []*side
	for i, spec := range specs {
		ask, end, err := spec.open(ctx, l.endpoints[i])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bench: open %s: %w", spec.name, err), closeSides(sides))
		}
		sides = append(sides, &side{sideSpec: spec, call: ask, end: end, meter: l.meters[i]})
	}
	return sides, nil
}

func closeSides(sides []*side) error {
	var errs []error
	for _, s := range sides {
		errs = append(errs, s.end())
	}
	return errors.Join(errs...)
}

// etcdGet is the least that a linearizable answer can cost.
func etcdGet(ctx context.Context, endpoint string) (call, func() error, error) {
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	return getElsewhere(client), client.Close, nil
}

// decorated is what makes the storage of a side, and what ends it after all its
// storages.
type decorated func() (generic.StorageDecorator, func() error, error)

func stock() (generic.StorageDecorator, func() error, error) {
	return registry.StorageWithCacher(), func() error { return nil }, nil
}

func rvfloor() (generic.StorageDecorator, func() error, error) {
	backends, err := apiserver.New(apiserver.Config{})
	if err != nil {
		return nil, nil, err
	}
	return backends.StorageDecorator(), backends.Close, nil
}

// cached opens a storage with a watch cache and asks it.
func cached(decorator decorated, ask func(storage.Interface) call) opener {
	return func(ctx context.Context, endpoint string) (call, func() error, error) {
		decorate, endAll, err := decorator()
		if err != nil {
			return nil, nil, err
		}
		store, destroy, err := decorate(storageConfig(endpoint), podPrefix, podKeyFunc, newPod, newPodList, podAttrs, nil, nil)
		if err != nil {
			return nil, nil, errors.Join(err, endAll())
		}
		end := func() error {
			destroy()
			return endAll()
		}
		if err := awaitReady(ctx, store); err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return ask(store), end, nil
	}
}

// readyTimeout is far above what filling a cache of 100 objects takes.
const readyTimeout = 30 * time.Second

// awaitReady waits until the cache is filled, and until upstream knows that etcd
// can be asked for progress: before that it answers consistent reads from etcd.
// Neither can be waited for but by asking again.
func awaitReady(ctx context.Context, store storage.Interface) error {
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, readyTimeout, true, func(context.Context) (bool, error) {
		return store.ReadinessCheck() == nil && feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress), nil
	})
	if err != nil {
		return fmt.Errorf("bench: the watch cache did not become ready: %w", err)
	}
	return nil
}
