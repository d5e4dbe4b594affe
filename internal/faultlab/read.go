package faultlab

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/podclient"
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

// as is the client that a kind of read is made by.
func (w *worker) as(kind reading) *podclient.Client {
	return &podclient.Client{Store: w.server.store, Reads: w.client(kind), Writes: w.clients}
}

func (w *worker) list(ctx context.Context, as reading, namespace, resourceVersion string) error {
	history := w.lab.acknowledged.Load()
	floor := history.Load()
	opts := sides.Everything(resourceVersion)
	if as == ListNewer {
		floor = 0
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	var revision uint64
	err := w.timed(ctx, func(ctx context.Context) (err error) {
		revision, err = w.as(as).List(ctx, namespace, opts)
		return err
	})
	if err != nil {
		return err
	}
	if w.seenOf != history {
		w.seen, w.seenOf = 0, history
	}
	w.seen = max(w.seen, revision)
	w.lab.tally.answered(revision < floor)
	return nil
}

func (w *worker) get(ctx context.Context, as reading, namespace, name, resourceVersion string) error {
	err := w.timed(ctx, func(ctx context.Context) error { return w.as(as).Get(ctx, namespace, name, resourceVersion) })
	if err == nil {
		w.lab.tally.answered(false)
	}
	return err
}

// legacyWatch looks at the first event of a watch that asks for the newest: it is the
// state of an object that nobody else writes, so it must be the last write.
func (w *worker) legacyWatch(ctx context.Context) error {
	pod := podclient.NewPod(w.name, "marker")
	if err := w.transact(ctx, 0, pod); err != nil {
		return err
	}
	read := w.client(LegacyWatch).Get(sides.PodKey(pod.Namespace, pod.Name), "")
	floor := w.lab.acknowledged.Load().Load()
	var event watch.Event
	err := w.timed(ctx, func(ctx context.Context) error {
		events, err := w.server.store.Watch(ctx, sides.PodPrefix+w.name, sides.Everything(""))
		if err != nil {
			return err
		}
		defer events.Stop()
		event = <-events.ResultChan() // nothing, when ctx ends
		return nil
	})
	if err != nil {
		read.Failed()
		return err
	}
	got, ok := podclient.PodOf(event)
	if !ok {
		read.Failed()
		return podclient.ErrEnded
	}
	item := podclient.Item(got)
	read.Answered(item.Revision, item)
	w.lab.tally.answered(false)
	if item.Revision < floor && got.Spec.Hostname != pod.Spec.Hostname {
		w.lab.tally.tooOld()
	}
	return nil
}

// watchList takes the initial events as a LIST, and then what comes for so long.
func (w *worker) watchList(ctx context.Context, namespace string, more time.Duration) error {
	floor := w.lab.acknowledged.Load().Load()
	client := w.as(WatchList)
	var revision uint64
	var events watch.Interface
	err := w.timed(ctx, func(ctx context.Context) (err error) {
		revision, events, err = client.WatchList(ctx, namespace)
		return err
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	w.lab.tally.answered(revision < floor)
	w.take(client.Reads.Watch(sides.PodPrefix+namespace+"/", revision), events, more)
	return nil
}

// take takes what comes for so long.
func (w *worker) take(recorded *linear.Watch, events watch.Interface, atMost time.Duration) {
	enough := time.After(atMost)
	for {
		select {
		case event := <-events.ResultChan():
			if !podclient.Deliver(recorded, event) {
				return
			}
			if event.Type == watch.Bookmark {
				w.lab.bookmarks.Add(1)
			} else {
				w.lab.events.Add(1)
			}
		case <-enough:
			return
		}
	}
}

func (w *worker) newest() string { return strconv.FormatUint(w.seen, 10) }
