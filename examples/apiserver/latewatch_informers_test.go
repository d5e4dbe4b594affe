package main

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// source is where an informer reads. It picks between the two kinds of informer,
// and counts how this one fills itself.
type source struct {
	cache.ListWatch
	watchList         bool
	lists, watchLists atomic.Int32
}

func newSource(server dynamic.ResourceInterface, watchList bool) *source {
	s := &source{watchList: watchList}
	s.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		s.lists.Add(1)
		return server.List(ctx, o)
	}
	s.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if o.SendInitialEvents != nil && *o.SendInitialEvents {
			s.watchLists.Add(1)
		}
		return server.Watch(ctx, o)
	}
	return s
}

// IsWatchListSemanticsUnSupported is asked by client-go, whose WatchList is on by
// default.
func (s *source) IsWatchListSemanticsUnSupported() bool { return !s.watchList }

// informer returns one that says when its reads fail, unless it is being stopped.
func (s *source) informer() (cache.SharedIndexInformer, error) {
	i := cache.NewSharedIndexInformer(s, &unstructured.Unstructured{}, 0, nil)
	return i, i.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if ctx.Err() == nil {
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}
	})
}

// check reports an informer that is not of its kind.
func (s *source) check() error {
	if lists, watchLists := s.lists.Load(), s.watchLists.Load(); s.watchList != (watchLists > 0) || s.watchList != (lists == 0) {
		return fmt.Errorf("an informer with WatchList %v did %d lists and %d watch-lists", s.watchList, lists, watchLists)
	}
	return nil
}

// startInformer is the read that a controller begins with: a new informer, until it
// is synced.
func startInformer(watchList bool) readFunc {
	return func(ctx context.Context, server dynamic.ResourceInterface, w written) (seen, error) {
		s := newSource(server, watchList)
		informer, err := s.informer()
		if err != nil {
			return seen{}, err
		}
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { informer.RunWithContext(ctx) })
		defer wg.Wait()
		defer cancel()
		select {
		case <-informer.HasSyncedChecker().Done():
		case <-ctx.Done():
			return seen{}, context.Cause(ctx)
		}
		return seen{version: versions(informer)[w.name]}, s.check()
	}
}

// versions are the objects that an informer has: resourceVersions by name.
func versions(informer cache.SharedIndexInformer) map[string]string {
	all := map[string]string{}
	for _, o := range informer.GetStore().List() {
		object := o.(*unstructured.Unstructured)
		all[object.GetName()] = object.GetResourceVersion()
	}
	return all
}

// observer is an informer that runs all the time, and its handler.
type observer struct {
	t *testing.T
	kind
	source   *source
	informer cache.SharedIndexInformer
	alive    map[string]string // resourceVersions by name
	newest   map[string]int64  // the same, and those of deletions
	marked   chan struct{}     // closed when the marker was added
}

func (o *observer) String() string {
	return fmt.Sprintf("informer of %s, WatchList %v", o.Resource, o.source.watchList)
}

// check is for the end.
func (o *observer) check(want map[string]string) {
	if err := o.source.check(); err != nil {
		o.t.Errorf("%v: %v", o, err)
	}
	if got := versions(o.informer); !maps.Equal(got, want) {
		o.t.Errorf("%v has %v, etcd %v", o, got, want)
	}
	if !maps.Equal(o.alive, want) {
		o.t.Errorf("%v told of %v, etcd has %v", o, o.alive, want)
	}
}

// marker is the name of the object that is written last.
const marker = "marker"

func (o *observer) OnAdd(obj any, _ bool) {
	object := obj.(*unstructured.Unstructured)
	if old, ok := o.alive[object.GetName()]; ok {
		o.t.Errorf("%v: %s is added at %s, and was there at %s", o, object.GetName(), object.GetResourceVersion(), old)
	}
	o.saw(object)
	if object.GetName() == marker {
		close(o.marked)
	}
}

func (o *observer) OnUpdate(_, obj any) {
	object := obj.(*unstructured.Unstructured)
	if _, ok := o.alive[object.GetName()]; !ok {
		o.t.Errorf("%v: %s is updated at %s, and was not there", o, object.GetName(), object.GetResourceVersion())
	}
	o.saw(object)
}

func (o *observer) OnDelete(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok { // a new list lacks it
		obj = last.Obj
	}
	object := obj.(*unstructured.Unstructured)
	o.saw(object)
	delete(o.alive, object.GetName())
}

// saw wants each object's revisions to go up.
func (o *observer) saw(object *unstructured.Unstructured) {
	name, version := object.GetName(), object.GetResourceVersion()
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil || revision < o.newest[name] {
		o.t.Errorf("%v: %s goes back from %d to %q, %v", o, name, o.newest[name], version, err)
	}
	o.alive[name], o.newest[name] = version, revision
}

// startInformers starts informers of both kinds for each resource. stop writes a
// marker, stops the informers when they have it, and wants them to have been told
// what etcd has.
func (l *lateWatch) startInformers(t *testing.T, ctx context.Context) (stop func()) {
	running, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var observers []*observer
	for _, k := range kinds {
		for _, watchList := range []bool{true, false} {
			o := &observer{t: t, kind: k, source: newSource(k.of(l.far), watchList),
				alive: map[string]string{}, newest: map[string]int64{}, marked: make(chan struct{})}
			var err error
			if o.informer, err = o.source.informer(); err != nil {
				t.Fatal(err)
			}
			if _, err := o.informer.AddEventHandler(o); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { o.informer.RunWithContext(running) })
			observers = append(observers, o)
		}
	}
	return func() {
		defer wg.Wait()
		defer cancel()
		for _, k := range kinds {
			if _, err := k.of(l.near).Create(ctx, k.object(marker), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range observers {
			select {
			case <-o.marked:
			case <-ctx.Done():
				t.Fatalf("%v never got the marker", o)
			}
		}
		cancel()
		wg.Wait() // the handlers, too
		for _, o := range observers {
			o.check(l.inEtcd(t, o.kind))
		}
	}
}

// inEtcd are the objects that there are: resourceVersions by name.
func (l *lateWatch) inEtcd(t *testing.T, k kind) map[string]string {
	kvs, err := l.etcd.Get(t.Context(), k.prefix(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range kvs.Kvs {
		all[path.Base(string(kv.Key))] = strconv.FormatInt(kv.ModRevision, 10)
	}
	return all
}
