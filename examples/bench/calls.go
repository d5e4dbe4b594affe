package main

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// etcdGet is the least that a linearizable answer can cost: it reads the object
// that is written elsewhere.
func etcdGet(ctx context.Context, port *sides.Port) (source, error) {
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{port.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return source{}, err
	}
	ask := func(ctx context.Context) (sides.Answer, error) {
		resp, err := client.Get(ctx, sides.ElsewhereKey)
		if err != nil {
			return sides.Answer{}, err
		}
		return sides.Answer{Items: len(resp.Kvs), Revision: uint64(resp.Header.Revision)}, nil
	}
	return source{call: ask, end: client.Close}, nil
}

// listPods lists all pods at a resourceVersion: "" asks for the newest, "0" for
// any.
func listPods(resourceVersion string) func(storage.Interface) sides.Call {
	return func(store storage.Interface) sides.Call { return sides.List(store, "", resourceVersion) }
}

var errWatchEnded = errors.New("bench: the watch ended before its initial events")

// watchPods opens a legacy Watch (no resourceVersion, no SendInitialEvents) and
// reads the pods that there are.
func watchPods(store storage.Interface) sides.Call {
	return func(ctx context.Context) (sides.Answer, error) {
		w, err := store.Watch(ctx, sides.PodPrefix, sides.Everything(""))
		if err != nil {
			return sides.Answer{}, err
		}
		defer w.Stop()
		var a sides.Answer
		for a.Items < sides.Pods {
			event, ok := <-w.ResultChan() // closed when ctx ends
			if !ok {
				return a, errWatchEnded
			}
			if event.Type != watch.Added {
				return a, fmt.Errorf("bench: initial event %d of a watch is %s: %v", a.Items, event.Type, event.Object)
			}
			object, err := meta.Accessor(event.Object)
			if err != nil {
				return a, err
			}
			revision, err := sides.Versioner.ParseResourceVersion(object.GetResourceVersion())
			if err != nil {
				return a, err
			}
			a.Items++
			a.Revision = max(a.Revision, revision)
		}
		return a, nil
	}
}
