package backends_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// phantom cuts a cache off, deletes an object, compacts the etcd at the revision of that,
// mends the link, and returns whether a LIST of the newest data shows the object still.
func phantom(t *testing.T, endpoint string, kind sides.Kind) bool {
	proxy, err := etcdlab.NewProxy(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	cached := backends.Open(t, sides.OpenAt, kind, "http://"+proxy.Addr())
	raw := backends.Open(t, sides.OpenAt, sides.Uncached, endpoint)
	client := backends.Connect(t, endpoint)
	list := func(ctx context.Context) (*example.PodList, error) {
		pods := &example.PodList{}
		return pods, cached.GetList(ctx, sides.PodPrefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, pods)
	}
	// The cache has been told of progress, if ever; nothing but the pod is written from here on.
	if _, err := list(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod, key := &example.Pod{}, sides.PodKey("ns", "phantom")
	pod.Namespace, pod.Name = "ns", "phantom"
	if err := raw.Create(t.Context(), key, pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	pods, err := list(t.Context())
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("the cache has %d pods, %v; want the one", len(pods.Items), err)
	}
	proxy.Cut()
	if err := raw.Delete(t.Context(), key, &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted, err := client.Get(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), deleted.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	proxy.Heal()
	// Something newer has the cache of an etcd that lost the event go on.
	if _, err := client.Put(t.Context(), "elsewhere", ""); err != nil {
		t.Fatal(err)
	}
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		pods, last = list(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("no LIST was answered after the link came back: %v, %v", err, last)
	}
	return len(pods.Items) > 0
}

// TestCompactedAtADeletion: etcd before 3.5.16 loses a deletion at whose revision it was
// compacted (etcd#18089) for a watch that goes on there. A cache with rvfloor does not.
func TestCompactedAtADeletion(t *testing.T) {
	for name, test := range map[string]struct {
		run   func(*testing.T) string
		stock bool // a cache as it comes shows the phantom
		build bool
	}{
		"3.5.14": {func(t *testing.T) string { return etcdlab.RunBuilt(t, "etcd-3.5.14") }, true, true},
		"3.7":    {func(t *testing.T) string { return etcdlab.Run(t, etcdlab.Config{}).Endpoints()[0] }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.build && testing.Short() {
				t.Skip("building it takes longer than -short allows")
			}
			if got := phantom(t, test.run(t), sides.Stock); got != test.stock {
				t.Errorf("stock shows what was deleted: %t, want %t", got, test.stock)
			}
			if phantom(t, test.run(t), sides.RVFloor) {
				t.Error("a verified LIST shows what was deleted")
			}
		})
	}
}
