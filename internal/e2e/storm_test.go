package e2e

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestStormReachesEtcdAsAFewCalls lets thousands of callers read 100 objects at once while
// another resource is written, and counts what reaches etcd.
func TestStormReachesEtcdAsAFewCalls(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	s := newOurs(t, cluster, decorator.Config{MaxWait: time.Minute}) // how long they wait is not the question
	for i := range 100 {
		if _, err := s.create(t.Context(), "storm", fmt.Sprintf("p%d", i), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	writer := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	for name, read := range map[string]func(context.Context) error{
		"list": func(ctx context.Context) error { return listed(ctx, s, "") },
		"zero": func(ctx context.Context) error { return listed(ctx, s, "0") },
		"watch": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			w, err := s.Watch(ctx, prefix+"storm", everything(""))
			if err != nil {
				return err
			}
			defer w.Stop()
			for range 100 {
				if e, ok := <-w.ResultChan(); !ok || e.Type != "ADDED" {
					return fmt.Errorf("%v %v", e, ok)
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := read(t.Context()); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var writing sync.WaitGroup
			writing.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						_, _ = writer.Put(context.Background(), "/registry/other/x", fmt.Sprint(i))
					}
				}
			})
			idle := runtime.NumGoroutine()
			before := s.counters.Snapshot()
			var wg sync.WaitGroup
			var most atomic.Int64
			start := make(chan struct{})
			for i := range callers {
				wg.Go(func() {
					<-start
					if err := read(t.Context()); err != nil {
						t.Error(err)
					}
					if i%50 == 0 {
						most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
					}
				})
			}
			close(start)
			wg.Wait()
			close(stop)
			writing.Wait()
			got := s.counters.Snapshot().Sub(before)
			if got.Ranges > 10 || got.ProgressRequests > 10 {
				t.Errorf("%d Range RPCs and %d progress requests, at most 10 of each", got.Ranges, got.ProgressRequests)
			}
			// A watch has two goroutines of the cacher's own.
			extra := most.Load() - callers - int64(idle)
			if name != "watch" && extra > 20 {
				t.Errorf("%d goroutines beyond the callers'", extra)
			}
			t.Logf("%d ranges, %d progress requests, %d goroutines beyond the callers'", got.Ranges, got.ProgressRequests, extra)
		})
	}
}

func listed(ctx context.Context, s *side, rv string) error {
	var list example.PodList
	err := s.GetList(ctx, prefix+"storm", everything(rv), &list)
	if err == nil && len(list.Items) != 100 {
		return fmt.Errorf("%d objects", len(list.Items))
	}
	return err
}

var _ storage.Interface = (*side)(nil)
