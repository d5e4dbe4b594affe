package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

const leased = 500

// leaseOf fills a namespace with pods that share a lease, as upstream's lease
// manager gives it to objects with a TTL, and returns the lease.
func (s *side) leaseOf(t *testing.T, namespace string) clientv3.LeaseID {
	t.Helper()
	lease, err := s.client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	var ops []clientv3.Op
	for i := range leased {
		key, value := encoded(t, namespace, fmt.Sprintf("p%03d", i), map[string]string{"half": fmt.Sprint(i % 2)})
		ops = append(ops, clientv3.OpPut(key, value, clientv3.WithLease(lease.ID)))
	}
	for chunk := range slices.Chunk(ops, etcdlab.MaxTxnOps) {
		if _, err := s.client.Txn(t.Context()).Then(chunk...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return lease.ID
}

// encoded is a pod as upstream's storage keeps it.
func encoded(t *testing.T, namespace, name string, set map[string]string) (key, value string) {
	t.Helper()
	data, err := runtime.Encode(codec, &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: set}})
	if err != nil {
		t.Fatal(err)
	}
	return "/registry" + prefix + namespace + "/" + name, string(data)
}

// lists are the ways to ask for the namespace: all of them must be whole.
func lists(namespace string) map[string]struct {
	key  string
	opts storage.ListOptions
} {
	type request = struct {
		key  string
		opts storage.ListOptions
	}
	odd := storage.Everything
	odd.Label, odd.GetAttrs = labels.SelectorFromSet(labels.Set{"half": "1"}), podAttrs
	byField := storage.Everything
	byField.Field, byField.GetAttrs = fields.OneTermNotEqualSelector("metadata.name", "p000"), podAttrs
	return map[string]request{
		"all":   {prefix, everything("")},
		"zero":  {prefix, everything("0")},
		"range": {prefix + namespace, everything("")},
		"label": {prefix + namespace, storage.ListOptions{Recursive: true, Predicate: odd}},
		"field": {prefix + namespace, storage.ListOptions{Recursive: true, Predicate: byField}},
	}
}

// TestLeaseEnds lists right after a lease of 500 objects was revoked: one revision
// deletes them all. Stock takes the revision with its first event and answers with
// the rest; ours never does.
func TestLeaseEnds(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	rounds := 40 // of each of the five lists
	if testing.Short() {
		rounds = 4
	}
	ours := newOurs(t, cluster, decorator.Config{})
	if shown := leaseRounds(t, ours, rounds); shown != 0 {
		t.Errorf("ours showed deleted objects in %d answers", shown)
	}
	stock := newStock(t, cluster)
	if shown := leaseRounds(t, stock, 2); shown == 0 {
		t.Error("stock showed no deleted object: the test does not bite")
	}
}

// leaseRounds ends a lease again and again, and returns how many answers showed an
// object that was gone.
func leaseRounds(t *testing.T, s *side, rounds int) (shown int) {
	for round := range rounds {
		for kind := range lists("") {
			namespace := fmt.Sprintf("%s%d", kind, round)
			lease := s.leaseOf(t, namespace)
			request := lists(namespace)[kind]
			if n := listLen(t, s, request.key, request.opts); n == 0 {
				t.Fatalf("%s: nothing before the lease ends", namespace)
			}
			if _, err := s.client.Revoke(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			if n := listLen(t, s, request.key, request.opts); n != 0 {
				shown++
			}
		}
	}
	return shown
}

func listLen(t *testing.T, s *side, key string, opts storage.ListOptions) int {
	t.Helper()
	var list example.PodList
	if err := s.GetList(t.Context(), key, opts, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// TestTransactionsAreWhole lists all the time while transactions write pairs of
// objects: each answer has both or none, whatever its revision.
func TestTransactionsAreWhole(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	for _, c := range []struct {
		name  string
		side  *side
		parts bool
	}{
		{"rvfloor", newOurs(t, cluster, decorator.Config{}), false},
		{"stock", newStock(t, cluster), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			wg.Go(func() { writePairs(ctx, t, c.side) })
			parts := 0
			answers := 2000
			if testing.Short() {
				answers = 500
			}
			for i := 0; i < answers || c.parts && parts == 0 && i < 20000; i++ {
				var list example.PodList
				rv := []string{"", "0"}[i%2]
				if err := c.side.GetList(t.Context(), prefix+"pairs", everything(rv), &list); err != nil {
					t.Fatal(err)
				}
				seen := map[string]string{}
				for _, pod := range list.Items {
					side, number, _ := strings.Cut(pod.Name, "-")
					seen[number] += side
				}
				for _, sides := range seen {
					if len(sides) != pairSize {
						parts++
						break
					}
				}
			}
			if c.parts != (parts > 0) {
				t.Errorf("%d of %d answers had a part of a transaction", parts, answers)
			}
		})
	}
}

const pairSize = 8

// writePairs creates and deletes objects of one number in one transaction.
func writePairs(ctx context.Context, t *testing.T, s *side) {
	for n := 0; ctx.Err() == nil; n++ {
		var ops []clientv3.Op
		for i := range pairSize {
			key, value := encoded(t, "pairs", fmt.Sprintf("%c-%d", 'A'+rune(i), n), nil)
			ops = append(ops, clientv3.OpPut(key, value))
			if n > 2 {
				old, _ := encoded(t, "pairs", fmt.Sprintf("%c-%d", 'A'+rune(i), n-3), nil)
				ops = append(ops, clientv3.OpDelete(old))
			}
		}
		if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}
