package progress

import (
	"context"
	"fmt"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestUnansweredWatchEnds with its context or with the Watcher, and its tap was
// told nothing: the watch has never been.
func TestUnansweredWatchEnds(t *testing.T) {
	for name, end := range map[string]func(w *Watcher, cancel func()){
		"context": func(_ *Watcher, cancel func()) { cancel() },
		"Close":   func(w *Watcher, _ func()) { w.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			server := newWatchServer(t)
			watcher := NewWatcher(server.client)
			defer watcher.Close()
			tap := newTapLog()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := watcher.Watch(WithTap(ctx, tap), "a")
			st := next(t, server.streams, "a stream")
			st.create(t)
			end(watcher, cancel)
			wantClosed(t, out, "the watch")
			<-st.ended
			tap.wantNoMore(t)
		})
	}
}

func TestWatchUnderAnEndedContext(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	tap := newTapLog()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantClosed(t, watcher.Watch(WithTap(ctx, tap), "a"), "the watch")
	tap.wantNoMore(t)
}

// TestCloseEndsEverything: watches that are idle, that hold a response which nobody
// takes, and that the server has not answered. It may be called again, also at the
// same time, and returns when all has ended.
func TestCloseEndsEverything(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	var outs []clientv3.WatchChan
	var streams []*serverStream
	open := func(tap Tap) *serverStream {
		outs = append(outs, watcher.Watch(WithTap(t.Context(), tap), "a"))
		st := next(t, server.streams, "a stream")
		streams = append(streams, st)
		st.create(t)
		return st
	}
	open(newTapLog()) // never answered
	idle, full := newTapLog(), newTapLog()
	open(idle).created(t, 0)
	kick := next(t, idle.opened, "Opened")
	st := open(full)
	st.created(t, 0)
	for revision := int64(11); revision < 20; revision++ {
		st.events(t, 0, revision)
	}
	full.want(t, "opened")
	for revision := 11; revision < 20; revision++ {
		full.want(t, fmt.Sprintf("revision %d: 1", revision)) // told, though nobody takes the first
	}
	var opening sync.WaitGroup
	opening.Go(func() { outs = append(outs, watcher.Watch(t.Context(), "untapped")) })
	st = next(t, server.streams, "the shared stream")
	streams = append(streams, st)
	st.create(t)
	st.created(t, 0)
	opening.Wait()

	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() {
			if err := watcher.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
	for i, out := range outs {
		// Nothing is left to wait for: the goroutines behind have ended.
		select {
		case resp, ok := <-out:
			if ok {
				t.Errorf("watch %d brought %+v after Close", i, resp)
			}
		default:
			t.Errorf("watch %d is open after Close", i)
		}
	}
	idle.want(t, "opened", "closed")
	full.want(t, "closed")
	for _, st := range streams {
		<-st.ended
	}

	// What comes after Close ends at once.
	tap := newTapLog()
	wantClosed(t, watcher.Watch(WithTap(t.Context(), tap), "a"), "a tapped watch after Close")
	wantClosed(t, watcher.Watch(t.Context(), "a"), "an untapped watch after Close")
	if err := kick(t.Context()); err == nil {
		t.Error("a kick after Close succeeded")
	}
	if err := watcher.RequestProgress(t.Context()); err == nil {
		t.Error("RequestProgress after Close succeeded")
	}
	if err := watcher.Close(); err != nil {
		t.Error(err)
	}
	tap.wantNoMore(t)
	if n := len(server.streams); n != 0 {
		t.Errorf("%d streams were opened after Close", n)
	}
}

// TestLateKicksFail and open no stream, where clientv3's own watcher opens one that
// nothing closes.
func TestLateKicksFail(t *testing.T) {
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	tap := newTapLog()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := watcher.Watch(WithTap(ctx, tap), "a")
	st := next(t, server.streams, "a stream")
	st.create(t)
	st.created(t, 0)
	kick := next(t, tap.opened, "Opened")
	cancel()
	wantClosed(t, out, "the watch")
	for range 200 {
		if err := kick(context.Background()); err == nil {
			t.Fatal("a kick succeeded after its watch had ended")
		}
	}
	<-st.ended
	if n := len(server.streams); n != 0 {
		t.Errorf("%d late kicks opened %d streams", 200, n)
	}
}

// TestKicksBesideTheEnd: a stream that a kick opens in the moment in which its watch
// ends is closed, too.
func TestKicksBesideTheEnd(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	server := newWatchServer(t)
	watcher := NewWatcher(server.client)
	defer watcher.Close()
	for range rounds {
		tap := newTapLog()
		ctx, cancel := context.WithCancel(t.Context())
		out := watcher.Watch(WithTap(ctx, tap), "a")
		st := next(t, server.streams, "a stream")
		for (<-st.requests).GetCreateRequest() == nil {
			st = next(t, server.streams, "a stream") // that was one of a late kick
		}
		st.created(t, 0)
		kick := next(t, tap.opened, "Opened")
		var kicking sync.WaitGroup
		started := make(chan struct{}, 2)
		for range 2 {
			kicking.Go(func() {
				for err := error(nil); err == nil; err = kick(context.Background()) {
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		next(t, started, "the first kick")
		cancel()
		wantClosed(t, out, "the watch")
		kicking.Wait()
		<-st.ended
		for len(server.streams) > 0 {
			<-(<-server.streams).ended
		}
	}
}

// TestTapFrom finds the tap that a context carries.
func TestTapFrom(t *testing.T) {
	if _, ok := TapFrom(t.Context()); ok {
		t.Error("a tap in a context without one")
	}
	tap := newTapLog()
	if got, ok := TapFrom(WithTap(t.Context(), tap)); !ok || got != Tap(tap) {
		t.Errorf("got %v, %v; want the tap", got, ok)
	}
}
