package decorator

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/httplab"
)

// slowClient is the http.ResponseWriter of a watch whose client takes an event only when all
// that the server can get ready before has been got ready. So an endpoint handler, which
// flushes when it sees nothing more to come, has no reason to, but at the end.
type slowClient struct {
	header http.Header

	mu      sync.Mutex
	events  int
	flushes int
}

func (c *slowClient) Header() http.Header { return c.header }
func (c *slowClient) WriteHeader(int)     {}

func (c *slowClient) Write(p []byte) (int, error) {
	time.Sleep(time.Nanosecond) // in a bubble: until nothing else moves
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events += strings.Count(string(p), `"type":"`)
	return len(p), nil
}

func (c *slowClient) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
}

func (c *slowClient) seen() (events, flushes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events, c.flushes
}

// informer has an API server over s answer a watch-list of all pods to a slow client.
func informer(ctx context.Context, s storage.Interface) (client *slowClient, end func()) {
	client = &slowClient{header: http.Header{}}
	ctx, cancel := context.WithCancel(ctx)
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://pods"+httplab.PodsPath("ns")+
		"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3000", nil)
	request.RequestURI = request.URL.RequestURI()
	handler, done := httplab.NewHandler(s, httplab.Config{Prefix: "/pods"}), make(chan struct{})
	go func() {
		defer close(done)
		handler.ServeHTTP(client, request)
	}()
	return client, func() { cancel(); <-done }
}

// TestInformersAreFlushedAsStock: upstream's endpoint handler looks at how much is ready in
// a watch's channel, and flushes when there is nothing. A flush is most of what an event
// costs.
func TestInformersAreFlushedAsStock(t *testing.T) {
	const objects, writes = 300, 200
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		for i := range objects {
			r.put(fmt.Sprintf("pod-%d", i))
		}
		_, stock := r.stock()
		count := func(s storage.Interface) (flushes [2]int) {
			client, end := informer(t.Context(), s)
			defer end()
			time.Sleep(time.Second)
			for phase, want := range []int{objects + 1, objects + 1 + writes} {
				if phase == 1 {
					for range writes {
						r.put("pod-0")
					}
					time.Sleep(time.Second)
				}
				events, all := client.seen()
				if flushes[phase] = all - flushes[0]; events != want {
					t.Fatalf("%d events came, want %d", events, want)
				}
			}
			return flushes
		}
		want, got := count(stock), count(r.store)
		for phase, name := range []string{"a watch-list of 300 objects", "200 events in a row"} {
			if got[phase] > want[phase]+2 {
				t.Errorf("%s take %d flushes, and upstream %d", name, got[phase], want[phase])
			}
		}
	})
}

// TestBookmarkWatchCosts: a watch that asks for bookmarks costs one goroutine beside
// upstream's, which ends with it, and nothing for each event.
func TestBookmarkWatchCosts(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		const watches = 50
		_, stock := r.stock()
		goroutines := func(s storage.Interface) int {
			settled()
			before := runtime.NumGoroutine()
			for range watches {
				opts := everything("")
				opts.Predicate.AllowWatchBookmarks = true
				defer must(s.Watch(t.Context(), "/pods/", opts)).Stop()
			}
			settled()
			return runtime.NumGoroutine() - before
		}
		want, got := goroutines(stock), goroutines(r.store)
		if most := want + watches; got > most {
			t.Errorf("%d watches have %d goroutines, and upstream's %d", watches, got, want)
		}
	})

	inner := watch.NewFakeWithChanSize(7, false)
	b := (&Store{tears: &tears{}}).bookmarked(t.Context(), inner)
	defer b.Stop()
	if got := cap(b.ResultChan()); got != 7 {
		t.Errorf("the channel holds %d events, and the inner one 7", got)
	}
	object := pod("ns", "a")
	if n := testing.AllocsPerRun(1000, func() {
		inner.Modify(object)
		<-b.ResultChan()
	}); n > 0 {
		t.Errorf("an event takes %v allocations", n)
	}
}
