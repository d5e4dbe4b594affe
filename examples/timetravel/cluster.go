package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

const podName = "web-0"

// cluster is one side: two API servers, and a namespace of its own, so that both
// sides can share an etcd.
type cluster struct {
	namespace string
	a, b      storage.Interface
	ends      []func() error
}

func openCluster(ctx context.Context, namespace string, kind sides.Kind, w *world) (*cluster, error) {
	c := &cluster{namespace: namespace}
	for _, server := range []struct {
		store *storage.Interface
		port  *sides.Port
	}{{&c.a, w.a}, {&c.b, w.b}} {
		store, end, err := sides.Open(ctx, kind, server.port)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", namespace, err), c.close())
		}
		*server.store = store
		c.ends = append(c.ends, end)
	}
	return c, nil
}

func (c *cluster) close() error {
	var errs []error
	for _, end := range slices.Backward(c.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

func (c *cluster) prefix() string { return sides.PodPrefix + c.namespace }

// create makes the pod through A.
func (c *cluster) create(ctx context.Context, uid types.UID, node string) error {
	pod := &example.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: podName, UID: uid},
		Spec:       example.PodSpec{NodeName: node},
	}
	if err := c.a.Create(ctx, c.prefix()+"/"+podName, pod, &example.Pod{}, 0); err != nil {
		return fmt.Errorf("%s: create the pod: %w", c.namespace, err)
	}
	return nil
}

// remove deletes the pod through A.
func (c *cluster) remove(ctx context.Context) error {
	err := c.a.Delete(ctx, c.prefix()+"/"+podName, &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("%s: delete the pod: %w", c.namespace, err)
	}
	return nil
}

// answer is what a kubelet does after its list.
type answer struct {
	starts []types.UID // the pods that the list has, all of which it starts
	err    error
}

// kubelet of the node starts and lists its pods.
func (c *cluster) kubelet(ctx context.Context, server storage.Interface, node, resourceVersion string) answer {
	opts := sides.Everything(resourceVersion)
	opts.Predicate = storage.SelectionPredicate{
		Label:    labels.Everything(),
		Field:    fields.OneTermEqualSelector("spec.nodeName", node),
		GetAttrs: sides.PodAttrs,
	}
	var list example.PodList
	if err := server.GetList(ctx, c.prefix(), opts, &list); err != nil {
		return answer{err: err}
	}
	var a answer
	for _, pod := range list.Items {
		a.starts = append(a.starts, pod.UID)
	}
	return a
}

// retryAfter is when the API server said to ask again, in seconds; 0 if it did not.
func (a answer) retryAfter() int {
	seconds, _ := apierrors.SuggestsClientDelay(a.err)
	return seconds
}

func (a answer) String() string {
	if status, ok := errors.AsType[*apierrors.StatusError](a.err); ok {
		return fmt.Sprintf("%d, Retry-After: %d", status.ErrStatus.Code, a.retryAfter())
	}
	if a.err != nil {
		return "fails"
	}
	if len(a.starts) == 0 {
		return "runs nothing"
	}
	var uids []string
	for _, uid := range a.starts {
		uids = append(uids, string(uid))
	}
	return "starts " + strings.Join(uids, ", ")
}
