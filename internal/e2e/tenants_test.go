package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// tenantCount is how many tenants have an object of one namespace and name.
const tenantCount = 20

// tenantKey is the KeyFunc of a cache over many tenants.
func tenantKey(obj runtime.Object) (string, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return "", fmt.Errorf("%T is no pod", obj)
	}
	return prefix + pod.Labels["tenant"] + "/" + pod.Namespace + "/" + pod.Name, nil
}

// tenants writes an object of each tenant, all of one namespace and name, under a lease and
// at one revision.
func (s *side) tenants(t *testing.T, lease clientv3.LeaseID, uid func(tenant string) types.UID) {
	t.Helper()
	var ops []clientv3.Op
	for i := range tenantCount {
		tenant := fmt.Sprintf("t%02d", i)
		pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "x", UID: uid(tenant), Labels: map[string]string{"tenant": tenant},
		}}
		data, err := runtime.Encode(codec, pod)
		if err != nil {
			t.Fatal(err)
		}
		key, err := tenantKey(pod)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, clientv3.OpPut("/registry"+key, string(data), clientv3.WithLease(lease)))
	}
	if _, err := s.client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestLeaseOfTenantsEnds: a lease with an object of each tenant ends, all of which have one
// namespace and name: no LIST shows any of them, a watch brings one DELETED of each, and when
// they are created anew they are new.
func TestLeaseOfTenantsEnds(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	ours := func(told func(runtime.Object) (string, error)) *side {
		s := connect(t, cluster, true)
		s.keyFunc = tenantKey
		return wrapped(t, s, decorator.Config{}, told)
	}
	for name, s := range map[string]*side{"with a KeyFunc": ours(tenantKey), "without": ours(nil)} {
		for ids, uid := range map[string]func(round int, tenant string) types.UID{
			"UIDs":       func(round int, tenant string) types.UID { return types.UID(fmt.Sprint(round, " of ", tenant)) },
			"equal UIDs": func(round int, _ string) types.UID { return types.UID(fmt.Sprint(round)) },
			"no UIDs":    func(int, string) types.UID { return "" },
		} {
			t.Run(name+"/"+ids, func(t *testing.T) {
				var list example.PodList
				if err := s.GetList(t.Context(), prefix, everything(""), &list); err != nil || len(list.Items) != 0 {
					t.Fatalf("%d objects before, %v", len(list.Items), err)
				}
				w, err := s.Watch(t.Context(), prefix, everything(list.ResourceVersion))
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				for round := range 3 {
					of := func(tenant string) types.UID { return uid(round, tenant) }
					lease, err := s.client.Grant(t.Context(), 3600)
					if err != nil {
						t.Fatal(err)
					}
					s.tenants(t, lease.ID, of)
					if n := listLen(t, s, prefix, everything("")); n != tenantCount {
						t.Errorf("a LIST shows %d objects, want %d", n, tenantCount)
					}
					wantOfEach(t, w, watch.Added, of)
					if _, err := s.client.Revoke(t.Context(), lease.ID); err != nil {
						t.Fatal(err)
					}
					if n := listLen(t, s, prefix, everything("")); n != 0 {
						t.Errorf("a LIST shows %d objects that are gone", n)
					}
					wantOfEach(t, w, watch.Deleted, of)
				}
			})
		}
	}
}

// wantOfEach reads one event of each tenant's object. Another that came too early, or too
// often, is found by the next call.
func wantOfEach(t *testing.T, w watch.Interface, kind watch.EventType, uid func(tenant string) types.UID) {
	t.Helper()
	never := time.After(time.Minute)
	var got, want []string
	for i := range tenantCount {
		tenant := fmt.Sprintf("t%02d", i)
		want = append(want, fmt.Sprint(kind, tenant, uid(tenant)))
		select {
		case event := <-w.ResultChan():
			object := event.Object
			if cached, ok := object.(runtime.CacheableObject); ok {
				object = cached.GetObject()
			}
			pod, ok := object.(*example.Pod)
			if !ok {
				t.Fatalf("the watch brought %s of %T", event.Type, object)
			}
			got = append(got, fmt.Sprint(event.Type, pod.Labels["tenant"], pod.UID))
		case <-never:
			slices.Sort(got)
			t.Fatalf("the watch brought no more than %q", got)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the watch brought %q, want %q", got, want)
	}
}
