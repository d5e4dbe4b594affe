package podclient

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

var values atomic.Int64

// NewPod is a pod with a value that no other of the process has.
func NewPod(namespace, name string) *example.Pod {
	return &example.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       example.PodSpec{Hostname: fmt.Sprintf("value-%d", values.Add(1))},
	}
}

// Change is what writing the pod does.
func Change(pod *example.Pod) linear.Change {
	return linear.Change{Key: sides.PodKey(pod.Namespace, pod.Name), Value: pod.Spec.Hostname}
}

// Create writes a pod that is not there, and returns the revision that it has then; 0
// without an error: it is there.
func (c *Client) Create(ctx context.Context, pod *example.Pod) (revision uint64, err error) {
	change, out := Change(pod), &example.Pod{}
	begun := c.Begin(linear.Create, change)
	err = c.Store.Create(ctx, change.Key, pod, out, 0)
	if revision = RevisionOf(out); c.CreatedAnywhere {
		_, err = begun.Ended(0, err)
		return revision, err
	}
	return begun.Ended(revision, err)
}

// Update gives a pod that is there another value. Its revision is as Create's.
func (c *Client) Update(ctx context.Context, pod *example.Pod) (revision uint64, err error) {
	change, out := Change(pod), &example.Pod{}
	begun := c.Begin(linear.Update, change)
	err = c.Store.GuaranteedUpdate(ctx, change.Key, out, false, nil, func(object runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object.(*example.Pod).Spec.Hostname = change.Value
		return object, nil, nil
	}, nil)
	return begun.Ended(RevisionOf(out), err)
}

// Delete deletes a pod that is there. Its revision is as Create's.
func (c *Client) Delete(ctx context.Context, namespace, name string) (revision uint64, err error) {
	key, out := sides.PodKey(namespace, name), &example.Pod{}
	begun := c.Begin(linear.Delete, linear.Change{Key: key, Deleted: true})
	err = c.Store.Delete(ctx, key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	return begun.Ended(RevisionOf(out), err)
}

// Write is one that has begun.
type Write []*linear.Write

// Begin records that one does.
func (c *Client) Begin(kind linear.WriteKind, changes ...linear.Change) (begun Write) {
	for _, client := range c.Writes {
		begun = append(begun, client.Write(kind, changes...))
	}
	return begun
}

// Ended records what a storage said of the write, and returns what Create does. One that
// may have taken effect, or may yet, is left open.
func (w Write) Ended(revision uint64, err error) (uint64, error) {
	switch {
	case err == nil:
		for _, write := range w {
			write.Acknowledged(revision)
		}
		return revision, nil
	case storage.IsExist(err), storage.IsNotFound(err):
		for _, write := range w {
			write.Failed()
		}
		return 0, nil
	default:
		return 0, err
	}
}
