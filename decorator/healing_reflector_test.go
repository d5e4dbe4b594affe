package decorator

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

// client lets a client-go reflector read a storage, as the API endpoints would, counts
// its calls, and can lose its watch without a word, as when its API server ends.
type client struct {
	storage   storage.Interface
	watchList bool
	calls     atomic.Int32
	watch     watch.Interface // the newest
}

func (c *client) options(o metav1.ListOptions) storage.ListOptions {
	c.calls.Add(1)
	predicate := storage.Everything
	predicate.Limit, predicate.Continue, predicate.AllowWatchBookmarks = o.Limit, o.Continue, o.AllowWatchBookmarks
	return storage.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		SendInitialEvents: o.SendInitialEvents, Recursive: true, Predicate: predicate,
	}
}

func (c *client) List(o metav1.ListOptions) (runtime.Object, error) {
	list := &example.PodList{}
	return list, c.storage.GetList(context.Background(), "/pods/", c.options(o), list)
}

func (c *client) Watch(o metav1.ListOptions) (watch.Interface, error) {
	w, err := c.storage.Watch(context.Background(), "/pods/", c.options(o))
	if err != nil {
		return nil, err
	}
	c.watch = watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if cached, ok := e.Object.(runtime.CacheableObject); ok {
			e.Object = cached.GetObject() // as the API endpoints do
		}
		return e, true
	})
	return c.watch, nil
}

// IsWatchListSemanticsUnSupported picks between the two kinds of reflector.
func (c *client) IsWatchListSemanticsUnSupported() bool { return !c.watchList }

// TestReflectorsListAgain: client-go's reflectors get rid of what was lost, both those
// whose watch was open, and those that come with a revision that does not exist any
// more, and do not call without pause.
func TestReflectorsListAgain(t *testing.T) {
	for _, watchList := range []bool{false, true} {
		for _, comes := range []bool{false, true} {
			t.Run(fmt.Sprintf("watchList=%v comes=%v", watchList, comes), func(t *testing.T) {
				heal(t, Config{}, nil, func(t *testing.T, w *ward) {
					c := &client{storage: w.healing, watchList: watchList}
					kept := cache.NewStore(cache.MetaNamespaceKeyFunc)
					reflector := cache.NewReflectorWithOptions(c, &example.Pod{}, kept, cache.ReflectorOptions{})
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						reflector.RunWithContext(ctx)
					}()
					state := func() map[string]string {
						found := map[string]string{}
						for _, o := range kept.List() {
							found[podKey(o.(*example.Pod))] = o.(*example.Pod).ResourceVersion
						}
						return found
					}
					time.Sleep(time.Second)
					w.put("c")
					synctest.Wait()
					if len(state()) != 3 {
						t.Fatalf("it has %v", state())
					}

					w.restore()
					before := c.calls.Load()
					if comes {
						c.watch.Stop() // and the client asks on, with what it has
					}
					_, _ = list(t.Context(), w.healing, everything(""))
					time.Sleep(time.Minute)
					if want := map[string]string{"/pods/ns/a": "2"}; !maps.Equal(state(), want) {
						t.Errorf("a minute later it has %v, want %v", state(), want)
					}
					if calls := c.calls.Load() - before; calls > 8 {
						t.Errorf("%d calls in a minute", calls)
					}
					w.put("d")
					time.Sleep(time.Second)
					if want := map[string]string{"/pods/ns/a": "2", "/pods/ns/d": "3"}; !maps.Equal(state(), want) {
						t.Errorf("it does not follow: it has %v, want %v", state(), want)
					}
					cancel()
					<-ended
				})
			})
		}
	}
}
