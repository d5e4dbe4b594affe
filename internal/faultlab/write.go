package faultlab

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/revision"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// write is one write, as each run has it.
type write struct {
	lab          *lab
	acknowledged *revision.Ratchet // of the history in which it began
	writes       []*linear.Write
}

func (w *worker) begin(kind linear.WriteKind, changes ...linear.Change) write {
	begun := write{lab: w.lab, acknowledged: w.lab.acknowledged.Load()}
	for _, client := range w.clients {
		begun.writes = append(begun.writes, client.Write(kind, changes...))
	}
	return begun
}

// ended settles the write. One that may have taken effect, or may yet, is left open.
func (w write) ended(revision uint64, err error) error {
	w.lab.operations.Add(1)
	if err == nil {
		for _, write := range w.writes {
			write.Acknowledged(revision)
		}
		w.acknowledged.Raise(revision)
		return nil
	}
	if storage.IsExist(err) || storage.IsNotFound(err) {
		for _, write := range w.writes {
			write.Failed()
		}
		return nil
	}
	return err
}

func keyOf(namespace, name string) string { return sides.PodPrefix + namespace + "/" + name }

func (l *lab) newPod(namespace, name string) *example.Pod {
	value := fmt.Sprintf("value-%d", l.values.Add(1))
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: example.PodSpec{Hostname: value}}
}

func revisionOf(pod *example.Pod) uint64 {
	revision, err := sides.Versioner.ObjectResourceVersion(pod)
	if err != nil {
		return 0 // no answer has it: it is judged to be wrong
	}
	return revision
}

func (w *worker) create(ctx context.Context, pod *example.Pod) error {
	key, out := keyOf(pod.Namespace, pod.Name), &example.Pod{}
	begun := w.begin(linear.Create, linear.Change{Key: key, Value: pod.Spec.Hostname})
	err := w.server.store.Create(ctx, key, pod, out, 0)
	return begun.ended(revisionOf(out), err)
}

func (w *worker) update(ctx context.Context, pod *example.Pod) error {
	key, out := keyOf(pod.Namespace, pod.Name), &example.Pod{}
	begun := w.begin(linear.Update, linear.Change{Key: key, Value: pod.Spec.Hostname})
	err := w.server.store.GuaranteedUpdate(ctx, key, out, false, nil, func(object runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		object.(*example.Pod).Spec.Hostname = pod.Spec.Hostname
		return object, nil, nil
	}, nil)
	return begun.ended(revisionOf(out), err)
}

func (w *worker) delete(ctx context.Context, namespace, name string) error {
	key, out := keyOf(namespace, name), &example.Pod{}
	begun := w.begin(linear.Delete, linear.Change{Key: key, Deleted: true})
	err := w.server.store.Delete(ctx, key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	return begun.ended(revisionOf(out), err)
}

// transact writes the pods at one revision, past all API servers.
func (w *worker) transact(ctx context.Context, lease clientv3.LeaseID, pods ...*example.Pod) error {
	var changes []linear.Change
	var ops []clientv3.Op
	for _, pod := range pods {
		key, value, err := sides.EncodePod(pod)
		if err != nil {
			return err
		}
		changes = append(changes, linear.Change{Key: keyOf(pod.Namespace, pod.Name), Value: pod.Spec.Hostname})
		ops = append(ops, clientv3.OpPut(key, value, clientv3.WithLease(lease)))
	}
	w.lab.writes.RLock()
	defer w.lab.writes.RUnlock()
	begun := w.begin(linear.Txn, changes...)
	resp, err := w.lab.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return begun.ended(0, err)
	}
	return begun.ended(uint64(resp.Header.Revision), nil)
}

// leased is how many pods share a lease.
const leased = 120

// lease writes pods that share a lease, as upstream's lease manager does with objects
// that have a TTL, and ends it.
func (w *worker) lease(ctx context.Context) error {
	granted, err := w.lab.client.Grant(ctx, 3600)
	if err != nil {
		return err
	}
	var pods []*example.Pod
	var ends []linear.Change
	for i := range leased {
		pod := w.lab.newPod(leaseNamespace, fmt.Sprintf("pod-%03d", i))
		pods = append(pods, pod)
		ends = append(ends, linear.Change{Key: keyOf(pod.Namespace, pod.Name), Deleted: true})
	}
	if err := w.transact(ctx, granted.ID, pods...); err != nil {
		return err
	}
	w.lab.writes.RLock()
	defer w.lab.writes.RUnlock()
	begun := w.begin(linear.LeaseEnd, ends...)
	resp, err := w.lab.client.Revoke(ctx, granted.ID)
	if err != nil {
		return begun.ended(0, err)
	}
	return begun.ended(uint64(resp.Header.Revision), nil)
}
