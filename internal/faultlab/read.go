package faultlab

import (
	"context"
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// A reading is a kind of read.
type reading string

// The kinds of reads.
const (
	List        reading = "LIST"
	ListZero    reading = "LIST at 0"
	ListNewer   reading = "LIST at N"
	Get         reading = "GET"
	GetZero     reading = "GET at 0"
	LegacyWatch reading = "legacy watch"
	WatchList   reading = "watch-list"
)

var readings = []reading{List, ListZero, ListNewer, Get, GetZero, LegacyWatch, WatchList}

func item(pod *example.Pod) linear.Item {
	return linear.Item{Key: keyOf(pod.Namespace, pod.Name), Value: pod.Spec.Hostname, Revision: revisionOf(pod)}
}

// answered tells what a read answered, and whether it was too old.
func (w *worker) answered(read *linear.Read, floor, revision uint64, items ...linear.Item) {
	read.Answered(revision, items...)
	w.lab.tally.answered(floor != 0 && revision < floor)
}

func (w *worker) list(ctx context.Context, as reading, namespace, resourceVersion string) error {
	prefix := sides.PodPrefix + namespace
	history := w.lab.acknowledged.Load()
	floor := history.Load()
	if as == ListNewer {
		floor = 0
	}
	read := w.client(as).List(prefix+"/", resourceVersion)
	var list example.PodList
	opts := sides.Everything(resourceVersion)
	if as == ListNewer {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	if err := w.timed(ctx, func(ctx context.Context) error { return w.server.store.GetList(ctx, prefix, opts, &list) }); err != nil {
		read.Failed()
		return err
	}
	revision, err := sides.Versioner.ParseResourceVersion(list.ResourceVersion)
	if err != nil {
		return err
	}
	items := make([]linear.Item, len(list.Items))
	for i := range list.Items {
		items[i] = item(&list.Items[i])
	}
	if w.seenOf != history {
		w.seen, w.seenOf = 0, history
	}
	w.seen = max(w.seen, revision)
	w.answered(read, floor, revision, items...)
	return nil
}

func (w *worker) get(ctx context.Context, as reading, namespace, name, resourceVersion string) error {
	key := keyOf(namespace, name)
	read := w.client(as).Get(key, resourceVersion)
	pod := &example.Pod{}
	opts := storage.GetOptions{ResourceVersion: resourceVersion}
	err := w.timed(ctx, func(ctx context.Context) error { return w.server.store.Get(ctx, key, opts, pod) })
	switch {
	case err == nil:
		w.answered(read, 0, 0, item(pod))
	case storage.IsNotFound(err):
		w.answered(read, 0, 0)
	default:
		read.Failed()
		return err
	}
	return nil
}

var errEnded = errors.New("faultlab: the watch ended early")

// legacyWatch looks at the first event of a watch that asks for the newest: it is the
// state of an object that nobody else writes, so it must be the last write.
func (w *worker) legacyWatch(ctx context.Context) error {
	pod := w.lab.newPod(w.name, "marker")
	err := w.transact(ctx, 0, pod)
	if err != nil {
		return err
	}
	read := w.client(LegacyWatch).Get(keyOf(pod.Namespace, pod.Name), "")
	floor := w.lab.acknowledged.Load().Load()
	events, err := w.server.store.Watch(ctx, sides.PodPrefix+w.name, sides.Everything(""))
	if err != nil {
		read.Failed()
		return err
	}
	defer events.Stop()
	event := <-events.ResultChan() // nothing, when ctx ends
	got, ok := event.Object.(*example.Pod)
	if !ok {
		read.Failed()
		return errEnded
	}
	w.answered(read, 0, revisionOf(got), item(got))
	if revisionOf(got) < floor && got.Spec.Hostname != pod.Spec.Hostname {
		w.lab.tally.tooOld()
	}
	return nil
}

// watchList takes the initial events as a LIST, and then what comes for so long.
func (w *worker) watchList(ctx context.Context, namespace string, more time.Duration) error {
	prefix := sides.PodPrefix + namespace
	floor := w.lab.acknowledged.Load().Load()
	client := w.client(WatchList)
	read := client.List(prefix+"/", "")
	opts := sides.Everything("")
	opts.SendInitialEvents, opts.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	events, err := w.server.store.Watch(ctx, prefix, opts)
	if err != nil {
		read.Failed()
		return err
	}
	defer events.Stop()
	var items []linear.Item
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*example.Pod)
		if !ok {
			break
		}
		if event.Type == watch.Bookmark && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			w.answered(read, floor, revisionOf(pod), items...)
			w.take(client.Watch(prefix+"/", revisionOf(pod)), events, more)
			return nil
		}
		items = append(items, item(pod))
	}
	read.Failed()
	return errEnded
}

// take takes what comes for so long.
func (w *worker) take(recorded *linear.Watch, events watch.Interface, atMost time.Duration) {
	enough := time.After(atMost)
	for {
		select {
		case event := <-events.ResultChan():
			pod, ok := event.Object.(*example.Pod)
			if !ok {
				return
			}
			it := item(pod)
			recorded.Delivered(linear.Event{Key: it.Key, Value: it.Value, Revision: it.Revision,
				Deleted: event.Type == watch.Deleted, Bookmark: event.Type == watch.Bookmark})
			if event.Type == watch.Bookmark {
				w.lab.bookmarks.Add(1)
			}
		case <-enough:
			return
		}
	}
}

func (w *worker) newest() string { return strconv.FormatUint(w.seen, 10) }
