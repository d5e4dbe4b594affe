package upstreamsuite

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// queueSize is how many events the plain cache holds ready for a watcher.
const queueSize = 10

// queued has watches from which nothing can be taken before their queue is full. Upstream's check of delayed delivery gives
// the queue a second to fill, in which a busy machine may have done nothing.
type queued struct{ storage.Interface }

func (q queued) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := q.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return &queuedWatch{Interface: w}, nil
}

type queuedWatch struct {
	watch.Interface
	once sync.Once
}

// ResultChan waits when it is called first. That the queue has filled nothing tells of: so it is looked at.
func (w *queuedWatch) ResultChan() <-chan watch.Event {
	events := w.Interface.ResultChan()
	w.once.Do(func() {
		for end := time.Now().Add(noticeTime); len(events) < min(queueSize, cap(events)) && time.Now().Before(end); {
			time.Sleep(lookPeriod)
		}
	})
	return events
}
