package decoratortest

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Of a watch that was opened and has not shown what the test looks for. Neither
// proves anything.
var (
	errOpen  = errors.New("the watch was opened, and its context ended first")
	errEnded = errors.New("the watch ended, as that of a slow reader may")
)

func inconclusive(err error) bool { return errors.Is(err, errOpen) || errors.Is(err, errEnded) }

// watchesState says whether watches are made that begin with the state.
func (r *rig) watchesState() bool {
	_, refused := r.Harness.(NoStateWatches)
	return !refused
}

// watchLists says whether watches with initial events are made.
func (r *rig) watchLists() bool {
	_, refused := r.Harness.(NoInitialEvents)
	return !refused && r.watchesState() && utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
}

// watching reads the state that a watch of everything begins with. A bookmark ends
// it where there are initial events. A watch without them does not tell: so it is
// read until it shows the object of the write as it was before, or the marker too.
func watching(resourceVersion string, initial *bool) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, w write) (view, error) {
		v := view{objects: map[string]uint64{}}
		err := r.watch(ctx, watchOptions(resourceVersion, initial), func(e watch.Event, name string, revision uint64) bool {
			switch e.Type {
			case watch.Added, watch.Modified:
				v.objects[name] = revision
			case watch.Deleted:
				delete(v.objects, name)
			case watch.Bookmark:
				if end, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object); err == nil && end {
					v.revision = revision
					return true
				}
			}
			old := name == w.name && !w.elsewhere && revision < w.revision
			_, marked := v.objects[w.marker]
			// The state comes in no promised order.
			return initial == nil && (old || marked && (w.deleted || w.elsewhere || v.objects[w.name] >= w.revision))
		})
		return v, err
	}
}

func watchOptions(resourceVersion string, initial *bool) storage.ListOptions {
	opts := storage.ListOptions{ResourceVersion: resourceVersion, SendInitialEvents: initial, Recursive: true, Predicate: storage.Everything}
	opts.Predicate.AllowWatchBookmarks = true
	if initial != nil {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	return opts
}

// watch watches everything until done. An ERROR event is its error.
func (r *rig) watch(ctx context.Context, opts storage.ListOptions, done func(e watch.Event, name string, revision uint64) bool) error {
	w, err := r.Store().Watch(ctx, r.prefix(), opts)
	if err != nil {
		return err
	}
	return r.follow(ctx, w, done)
}

// follow reads a watch until done, and stops it. An ERROR event is its error.
func (r *rig) follow(ctx context.Context, w watch.Interface, done func(e watch.Event, name string, revision uint64) bool) error {
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		obj := e.Object
		if cached, ok := obj.(runtime.CacheableObject); ok {
			obj = cached.GetObject()
		}
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("%s of %T: %w", e.Type, obj, err)
		}
		e.Object = obj
		if done(e, accessor.GetName(), r.revisionOf(accessor.GetResourceVersion())) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return errOpen
	}
	return errEnded
}
