package faultlab

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/apis/example"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/podclient"
	"github.com/rvfloor/rvfloor/internal/revision"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// write is one write, as each run has it.
type write struct {
	lab          *lab
	acknowledged *revision.Ratchet // of the history in which it began
}

func (w *worker) writing() write { return write{w.lab, w.lab.acknowledged.Load()} }

// ended counts a write, and notes that it was acknowledged at a revision; 0: it was not.
func (w write) ended(revision uint64, err error) error {
	w.lab.operations.Add(1)
	w.acknowledged.Raise(revision)
	return err
}

func (w *worker) create(ctx context.Context, pod *example.Pod) error {
	return w.writing().ended(w.as(List).Create(ctx, pod))
}

func (w *worker) update(ctx context.Context, pod *example.Pod) error {
	return w.writing().ended(w.as(List).Update(ctx, pod))
}

func (w *worker) delete(ctx context.Context, namespace, name string) error {
	return w.writing().ended(w.as(List).Delete(ctx, namespace, name))
}

// transaction makes a write past all API servers.
func (w *worker) transaction(kind linear.WriteKind, changes []linear.Change, commit func() (*pb.ResponseHeader, error)) error {
	w.lab.writes.RLock()
	defer w.lab.writes.RUnlock()
	writing, begun := w.writing(), w.as(List).Begin(kind, changes...)
	header, err := commit()
	return writing.ended(begun.Ended(uint64(header.GetRevision()), err))
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
		changes = append(changes, podclient.Change(pod))
		ops = append(ops, clientv3.OpPut(key, value, clientv3.WithLease(lease)))
	}
	return w.transaction(linear.Txn, changes, func() (*pb.ResponseHeader, error) {
		resp, err := w.lab.client.Txn(ctx).Then(ops...).Commit()
		return (*pb.TxnResponse)(resp).GetHeader(), err
	})
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
		pod := podclient.NewPod(leaseNamespace, fmt.Sprintf("pod-%03d", i))
		pods = append(pods, pod)
		// A write of before that timed out may yet come, and take them from this lease.
		ends = append(ends, linear.Change{Key: sides.PodKey(pod.Namespace, pod.Name), Value: pod.Spec.Hostname, Deleted: true})
	}
	if err := w.transact(ctx, granted.ID, pods...); err != nil {
		return err
	}
	return w.transaction(linear.LeaseEnd, ends, func() (*pb.ResponseHeader, error) {
		resp, err := w.lab.client.Revoke(ctx, granted.ID)
		return (*pb.LeaseRevokeResponse)(resp).GetHeader(), err
	})
}
