// Package podclient calls a storage of pods, as package sides makes it, and records each
// call for package linear to judge.
package podclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// Client is one client of one API server.
type Client struct {
	Store storage.Interface
	// Reads records what it reads, and each of Writes what it writes.
	Reads  *linear.Client
	Writes []*linear.Client
	// CreatedAnywhere says that what a Create answers is not the revision of the write, as
	// with kine where an object is created once more. Its value tells it then.
	CreatedAnywhere bool
}

// List reads a namespace, or all with "", and returns the revision of the answer.
func (c *Client) List(ctx context.Context, namespace string, opts storage.ListOptions) (revision uint64, err error) {
	prefix := sides.PodPrefix + namespace
	read := c.Reads.List(strings.TrimSuffix(prefix, "/")+"/", opts.ResourceVersion)
	var list example.PodList
	if err := c.Store.GetList(ctx, prefix, opts, &list); err != nil {
		read.Failed()
		return 0, err
	}
	if revision, err = sides.Versioner.ParseResourceVersion(list.ResourceVersion); err != nil {
		return 0, err
	}
	items := make([]linear.Item, len(list.Items))
	for i := range list.Items {
		items[i] = Item(&list.Items[i])
	}
	read.Answered(revision, items...)
	return revision, nil
}

// Get reads a pod. That there is none is an answer.
func (c *Client) Get(ctx context.Context, namespace, name, resourceVersion string) error {
	key, pod := sides.PodKey(namespace, name), &example.Pod{}
	read := c.Reads.Get(key, resourceVersion)
	err := c.Store.Get(ctx, key, storage.GetOptions{ResourceVersion: resourceVersion}, pod)
	switch {
	case err == nil:
		read.Answered(0, Item(pod))
	case storage.IsNotFound(err):
		read.Answered(0)
	default:
		read.Failed()
		return err
	}
	return nil
}

// ErrEnded is that a watch did before it had what it was to bring.
var ErrEnded = errors.New("podclient: the watch ended early")

// WatchList takes the initial events of a watch as a LIST, and returns its revision and
// the watch, which the caller stops.
func (c *Client) WatchList(ctx context.Context, namespace string) (revision uint64, more watch.Interface, err error) {
	prefix := sides.PodPrefix + namespace
	read := c.Reads.List(prefix+"/", "")
	opts := sides.Everything("")
	opts.SendInitialEvents, opts.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	events, err := c.Store.Watch(ctx, prefix, opts)
	if err != nil {
		read.Failed()
		return 0, nil, err
	}
	var items []linear.Item
	for event := range events.ResultChan() {
		pod, ok := PodOf(event)
		if !ok {
			break
		}
		if event.Type == watch.Bookmark && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			revision := RevisionOf(pod)
			read.Answered(revision, items...)
			return revision, events, nil
		}
		items = append(items, Item(pod))
	}
	events.Stop()
	read.Failed()
	return 0, nil, ErrEnded
}

// Deliver records an event of a watch. It is false for one that ends it.
func Deliver(to *linear.Watch, event watch.Event) bool {
	pod, ok := PodOf(event)
	if !ok {
		return false
	}
	item := Item(pod)
	to.Delivered(linear.Event{Key: item.Key, Value: item.Value, Revision: item.Revision,
		Deleted: event.Type == watch.Deleted, Bookmark: event.Type == watch.Bookmark})
	return true
}

// Follow is an informer: it lists, watches from there, and begins anew after an error and a
// pause, until ctx ends. It returns how many events and bookmarks came.
func (c *Client) Follow(ctx context.Context, pause time.Duration) (came int) {
	for ctx.Err() == nil {
		n, err := c.followOnce(ctx)
		if came += n; err != nil {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
	return came
}

func (c *Client) followOnce(ctx context.Context) (came int, err error) {
	revision, err := c.List(ctx, "", sides.Everything(""))
	if err != nil {
		return 0, err
	}
	opts := sides.Everything(strconv.FormatUint(revision, 10))
	opts.Predicate.AllowWatchBookmarks = true
	events, err := c.Store.Watch(ctx, sides.PodPrefix, opts)
	if err != nil {
		return 0, err
	}
	defer events.Stop()
	recorded := c.Reads.Watch(sides.PodPrefix, revision)
	for event := range events.ResultChan() {
		if !Deliver(recorded, event) {
			return came, ErrEnded
		}
		came++
	}
	return came, nil
}

// PodOf is the pod of an event; false of an error, or of none. A Cacher that tells several
// watches of one change wraps it. Anything else would go unjudged, so it panics.
func PodOf(event watch.Event) (*example.Pod, bool) {
	object := event.Object
	if shared, ok := object.(runtime.CacheableObject); ok {
		object = shared.GetObject()
	}
	pod, ok := object.(*example.Pod)
	if _, failed := object.(*metav1.Status); !ok && !failed && object != nil {
		panic(fmt.Sprintf("podclient: a watch of pods brought a %T", object))
	}
	return pod, ok
}

// Item is a pod as package linear knows it.
func Item(pod *example.Pod) linear.Item {
	return linear.Item{Key: sides.PodKey(pod.Namespace, pod.Name), Value: pod.Spec.Hostname, Revision: RevisionOf(pod)}
}

// RevisionOf is that of a pod; 0, which no answer has and is judged to be wrong, where it
// has none.
func RevisionOf(pod *example.Pod) uint64 {
	revision, err := sides.Versioner.ObjectResourceVersion(pod)
	if err != nil {
		return 0
	}
	return revision
}
