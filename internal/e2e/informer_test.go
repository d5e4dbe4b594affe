package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// listerWatcher lets a client-go reflector read a namespace from a storage, as the
// API endpoints would.
type listerWatcher struct {
	storage   storage.Interface
	key       string
	watchList bool
}

func (l listerWatcher) options(o metav1.ListOptions) storage.ListOptions {
	pred := storage.Everything
	pred.Limit, pred.Continue, pred.AllowWatchBookmarks = o.Limit, o.Continue, o.AllowWatchBookmarks
	return storage.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		SendInitialEvents: o.SendInitialEvents, Recursive: true, Predicate: pred,
	}
}

func (l listerWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	list := &example.PodList{}
	return list, l.storage.GetList(context.Background(), l.key, l.options(o), list)
}

func (l listerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	w, err := l.storage.Watch(context.Background(), l.key, l.options(o))
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if cached, ok := e.Object.(runtime.CacheableObject); ok {
			e.Object = cached.GetObject() // as the API endpoints do
		}
		return e, true
	}), nil
}

// IsWatchListSemanticsUnSupported picks between the two kinds of informer.
func (l listerWatcher) IsWatchListSemanticsUnSupported() bool { return !l.watchList }

// markedStore tells when the informer has seen the marker.
type markedStore struct {
	cache.Store
	once   sync.Once
	marked chan struct{}
}

const marker = "zz-marker"

func (m *markedStore) look(objects ...any) {
	for _, o := range objects {
		if pod, ok := o.(*example.Pod); ok && pod.Name == marker {
			m.once.Do(func() { close(m.marked) })
		}
	}
}

func (m *markedStore) Add(o any) error {
	err := m.Store.Add(o)
	m.look(o)
	return err
}

func (m *markedStore) Replace(o []any, rv string) error {
	err := m.Store.Replace(o, rv)
	m.look(o...)
	return err
}

// TestInformersStartWhileLeaseEnds starts informers in the moment in which a lease
// of 500 objects ends. They end with what is there. Stock's classic informer that
// listed in that moment keeps deleted objects for good.
func TestInformersStartWhileLeaseEnds(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	ours, stock := newOurs(t, cluster, decorator.Config{}), newStock(t, cluster)
	for _, watchList := range []bool{false, true} {
		t.Run(fmt.Sprintf("watchList=%t", watchList), func(t *testing.T) {
			if wrong := informerRounds(t, ours, rounds, watchList, "ours"); wrong != 0 {
				t.Errorf("%d of %d informers of ours ended with a wrong set", wrong, rounds)
			}
		})
	}
	t.Run("stock", func(t *testing.T) {
		if wrong := informerRounds(t, stock, 600, false, "stock"); wrong == 0 {
			t.Error("no informer of stock ended with a wrong set: the test does not bite")
		}
	})
}

// informerRounds returns how many informers were left with objects that are gone.
// Stock's rounds end with the first.
func informerRounds(t *testing.T, s *side, rounds int, watchList bool, name string) (wrong int) {
	for round := range rounds {
		namespace := fmt.Sprintf("%s-%t-%d", name, watchList, round)
		lease := s.leaseOf(t, namespace)
		listLen(t, s, prefix+namespace, everything("")) // the cache has them
		store := &markedStore{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), marked: make(chan struct{})}
		reflector := cache.NewReflector(listerWatcher{s, prefix + namespace, watchList}, &example.Pod{}, store, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		run := func() { reflector.RunWithContext(ctx) }
		if round%2 == 1 {
			wg.Go(run) // on a busy machine the cache may have it all before an informer begins
		}
		if _, err := s.client.Revoke(ctx, lease); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			wg.Go(run)
		}
		if _, err := s.create(ctx, namespace, marker, 0, nil); err != nil {
			t.Fatal(err)
		}
		<-store.marked
		if n := len(store.ListKeys()); n != 1 {
			wrong++
		}
		cancel()
		wg.Wait()
		if wrong > 0 && name == "stock" {
			return wrong
		}
	}
	return wrong
}
