package progress

import (
	"context"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// overtaking serves one stream as an etcd does that hands progress to a new watch
// before its catch-up events: when it is asked, and any watch of the stream is
// synced, it answers to the whole stream. While none is, it is silent until one is.
// A watch from an old revision is synced when catchUp is closed.
func overtaking(t *testing.T, st *serverStream, catchUp <-chan struct{}, asked chan<- struct{}) {
	var id, synced int64
	behind := map[int64]int64{} // watch to its first revision
	owed := false
	for {
		select {
		case request, ok := <-st.requests:
			switch {
			case !ok:
				return
			case request.GetCreateRequest() != nil:
				st.created(t, id)
				if start := request.GetCreateRequest().StartRevision; start != 0 {
					behind[id] = start
				} else {
					synced++
				}
				id++
			case request.GetProgressRequest() != nil:
				if synced > 0 {
					st.progress(t, head)
				} else {
					owed = true
				}
				asked <- struct{}{}
			}
		case <-catchUp:
			catchUp = nil
			for id, start := range behind {
				var revisions []int64
				for revision := start; revision <= head; revision++ {
					revisions = append(revisions, revision)
				}
				st.events(t, id, revisions...)
				synced++
			}
			if owed {
				st.progress(t, head)
			}
		}
	}
}

// TestProgressOvertakes: the same server, the same two watches and the same
// questions. On a shared stream, as clientv3 has it, the new watch is told that it
// is complete up to a revision before it gets the events below it; with a Watcher
// each watch has a stream of its own, and hears only what it asked for itself.
func TestProgressOvertakes(t *testing.T) {
	for _, test := range []struct {
		name     string
		watcher  func(*clientv3.Client) clientv3.Watcher
		kicks    int
		overtook bool
	}{
		{"clientv3", clientv3.NewWatcher, 1, true},
		{"Watcher, not tapped", func(c *clientv3.Client) clientv3.Watcher { return NewWatcher(c) }, 1, true},
		{"Watcher", func(c *clientv3.Client) clientv3.Watcher { return NewWatcher(c) }, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newWatchServer(t)
			watcher := test.watcher(server.client)
			catchUp, asked := make(chan struct{}), make(chan struct{}, 10)
			var serving sync.WaitGroup
			stop := make(chan struct{})
			serving.Go(func() {
				for {
					select {
					case st := <-server.streams:
						serving.Go(func() { overtaking(t, st, catchUp, asked) })
					case <-stop:
						return
					}
				}
			})
			defer serving.Wait()
			defer close(stop)
			defer watcher.Close()

			open := func(key string, opts ...clientv3.OpOption) (clientv3.WatchChan, func(context.Context) error) {
				if test.kicks == 1 {
					return watcher.Watch(t.Context(), key, opts...), watcher.RequestProgress
				}
				tap := newTapLog()
				return watcher.Watch(WithTap(t.Context(), tap), key, opts...), next(t, tap.opened, "Opened")
			}
			synced, kickSynced := open("a")
			behind, kickBehind := open("b", clientv3.WithRev(5))
			for i, kick := range []func(context.Context) error{kickSynced, kickBehind}[:test.kicks] {
				if err := kick(t.Context()); err != nil {
					t.Fatalf("kick %d: %v", i, err)
				}
				next(t, asked, "the kick")
			}
			if resp := next(t, synced, "progress of the synced watch"); !resp.IsProgressNotify() {
				t.Fatalf("the synced watch got %+v, want progress", resp)
			}
			close(catchUp)
			complete, overtook, events := int64(0), false, 0
			for complete == 0 || events == 0 {
				resp := next(t, behind, "events and progress of the watch behind")
				if resp.IsProgressNotify() {
					complete = resp.Header.Revision
				}
				for _, event := range resp.Events {
					events++
					overtook = overtook || event.Kv.ModRevision <= complete
				}
			}
			if events != 6 || complete != head {
				t.Errorf("%d events, complete up to %d; want 6, %d", events, complete, head)
			}
			if overtook != test.overtook {
				t.Errorf("progress overtook events: %v, want %v", overtook, test.overtook)
			}
		})
	}
}
