package backends

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// worker is one client of one server.
type worker struct {
	*runner
	store  storage.Interface
	client *linear.Client
	random *rand.Rand
}

// work makes calls until there are enough.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil && w.operations.Add(1) <= int64(w.cfg.Operations) {
		call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		err := w.step(call)
		cancel()
		if err != nil {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// step makes one call: one in four writes.
func (w *worker) step(ctx context.Context) error {
	namespace := []string{"a", "b"}[w.random.IntN(2)]
	name := fmt.Sprintf("pod-%d", w.random.IntN(4))
	switch n := w.random.IntN(24); {
	case n < 2:
		return w.create(ctx, namespace, name)
	case n < 5:
		return w.update(ctx, namespace, name)
	case n < 6:
		return w.delete(ctx, namespace, name)
	case n < 8:
		return w.watchList(ctx, namespace)
	case n < 12:
		return w.list(ctx, namespace, "")
	case n < 17:
		return w.list(ctx, namespace, "0")
	case n < 20:
		return w.get(ctx, namespace, name, "")
	default:
		return w.get(ctx, namespace, name, "0")
	}
}

func keyOf(namespace, name string) string { return sides.PodPrefix + namespace + "/" + name }

func (r *runner) newPod(namespace, name string) *example.Pod {
	value := fmt.Sprintf("value-%d", r.values.Add(1))
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: example.PodSpec{Hostname: value}}
}

func revisionOf(pod *example.Pod) uint64 {
	revision, err := sides.Versioner.ObjectResourceVersion(pod)
	if err != nil {
		return 0 // no answer has it: it is judged to be wrong
	}
	return revision
}

func item(pod *example.Pod) linear.Item {
	return linear.Item{Key: keyOf(pod.Namespace, pod.Name), Value: pod.Spec.Hostname, Revision: revisionOf(pod)}
}

// settle ends a write. One that may have taken effect, or may yet, is left open.
func settle(write *linear.Write, revision uint64, err error) error {
	switch {
	case err == nil:
		write.Acknowledged(revision)
	case storage.IsExist(err), storage.IsNotFound(err):
		write.Failed()
	default:
		return err
	}
	return nil
}

func (w *worker) create(ctx context.Context, namespace, name string) error {
	key, pod, out := keyOf(namespace, name), w.newPod(namespace, name), &example.Pod{}
	write := w.client.Write(linear.Create, linear.Change{Key: key, Value: pod.Spec.Hostname})
	err := w.store.Create(ctx, key, pod, out, 0)
	return settle(write, revisionOf(out), err)
}

func (w *worker) update(ctx context.Context, namespace, name string) error {
	key, value, out := keyOf(namespace, name), w.newPod(namespace, name).Spec.Hostname, &example.Pod{}
	write := w.client.Write(linear.Update, linear.Change{Key: key, Value: value})
	err := w.store.GuaranteedUpdate(ctx, key, out, false, nil, func(object runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object.(*example.Pod).Spec.Hostname = value
		return object, nil, nil
	}, nil)
	return settle(write, revisionOf(out), err)
}

func (w *worker) delete(ctx context.Context, namespace, name string) error {
	key, out := keyOf(namespace, name), &example.Pod{}
	write := w.client.Write(linear.Delete, linear.Change{Key: key, Deleted: true})
	err := w.store.Delete(ctx, key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	return settle(write, revisionOf(out), err)
}

func (w *worker) list(ctx context.Context, namespace, resourceVersion string) error {
	prefix := sides.PodPrefix + namespace
	read := w.client.List(prefix+"/", resourceVersion)
	var list example.PodList
	if err := w.store.GetList(ctx, prefix, sides.Everything(resourceVersion), &list); err != nil {
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
	read.Answered(revision, items...)
	return nil
}

func (w *worker) get(ctx context.Context, namespace, name, resourceVersion string) error {
	key, pod := keyOf(namespace, name), &example.Pod{}
	read := w.client.Get(key, resourceVersion)
	err := w.store.Get(ctx, key, storage.GetOptions{ResourceVersion: resourceVersion}, pod)
	switch {
	case err == nil:
		read.Answered(0, item(pod))
	case storage.IsNotFound(err):
		read.Answered(0)
	default:
		read.Failed()
		return err
	}
	return nil
}

// watchList takes the initial events of a watch as a LIST.
func (w *worker) watchList(ctx context.Context, namespace string) error {
	prefix := sides.PodPrefix + namespace
	read := w.client.List(prefix+"/", "")
	opts := sides.Everything("")
	opts.SendInitialEvents, opts.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	events, err := w.store.Watch(ctx, prefix, opts)
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
			read.Answered(revisionOf(pod), items...)
			return nil
		}
		items = append(items, item(pod))
	}
	read.Failed()
	return fmt.Errorf("backends: the watch ended early")
}
