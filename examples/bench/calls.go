package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// call asks a side once.
type call func(ctx context.Context) (answer, error)

// answer is what is checked of an answer.
type answer struct {
	items int
	// revision is the one that the answer reflects: that of a list, and of a watch
	// the newest among its initial events.
	revision uint64
}

// callTimeout is how long the API server lets a request run by default.
const callTimeout = time.Minute

var errCallTimeout = fmt.Errorf("bench: no answer within %v", callTimeout)

// callContext is the context of one call: each has its own, as each request has.
func callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
}

var versioner = storage.APIObjectVersioner{}

func everything(resourceVersion string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: resourceVersion, Predicate: storage.Everything, Recursive: true}
}

// getElsewhere reads the object that writeElsewhere writes.
func getElsewhere(client *clientv3.Client) call {
	return func(ctx context.Context) (answer, error) {
		resp, err := client.Get(ctx, elsewhereKey)
		if err != nil {
			return answer{}, err
		}
		return answer{items: len(resp.Kvs), revision: uint64(resp.Header.Revision)}, nil
	}
}

// listPods lists all pods at a resourceVersion: "" asks for the newest, "0" for
// any.
func listPods(resourceVersion string) func(storage.Interface) call {
	opts := everything(resourceVersion)
	return func(store storage.Interface) call {
		return func(ctx context.Context) (answer, error) {
			var list example.PodList
			if err := store.GetList(ctx, podPrefix, opts, &list); err != nil {
				return answer{}, err
			}
			revision, err := versioner.ParseResourceVersion(list.ResourceVersion)
			return answer{items: len(list.Items), revision: revision}, err
		}
	}
}

var errWatchEnded = errors.New("bench: the watch ended before its initial events")

// watchPods opens a legacy Watch (no resourceVersion, no SendInitialEvents) and
// reads the pods that there are.
func watchPods(store storage.Interface) call {
	return func(ctx context.Context) (answer, error) {
		w, err := store.Watch(ctx, podPrefix, everything(""))
		if err != nil {
			return answer{}, err
		}
		defer w.Stop()
		var a answer
		for a.items < pods {
			event, ok := <-w.ResultChan() // closed when ctx ends
			if !ok {
				return a, errWatchEnded
			}
			if event.Type != watch.Added {
				return a, fmt.Errorf("bench: initial event %d of a watch is %s: %v", a.items, event.Type, event.Object)
			}
			object, err := meta.Accessor(event.Object)
			if err != nil {
				return a, err
			}
			revision, err := versioner.ParseResourceVersion(object.GetResourceVersion())
			if err != nil {
				return a, err
			}
			a.items++
			a.revision = max(a.revision, revision)
		}
		return a, nil
	}
}
