package fdbshim_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// newStore starts a database, and looks at the end of the test that nothing is left
// of it.
func newStore(t *testing.T, cfg fdbshim.Config) *fdbshim.Store {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	store := fdbshim.NewStore(cfg)
	t.Cleanup(store.Close)
	return store
}

// serve starts a process, and returns a client of it too.
func serve(t *testing.T, store *fdbshim.Store, opts fdbshim.Options) (*fdbshim.Server, *clientv3.Client) {
	t.Helper()
	server, err := fdbshim.Serve(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server, connect(t, server)
}

func connect(t *testing.T, server *fdbshim.Server) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// soon is a guard against a hang, not an expectation.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, client *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := client.Put(soon(t), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func get(t *testing.T, client *clientv3.Client, key string, opts ...clientv3.OpOption) *clientv3.GetResponse {
	t.Helper()
	resp, err := client.Get(soon(t), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// watching is a watch of a test, on a stream of its own.
type watching struct {
	t       *testing.T
	watcher clientv3.Watcher
	ctx     context.Context
	out     clientv3.WatchChan
	created int64 // the revision of the response that said so
}

// watch begins a watch and returns when it is created.
func watch(t *testing.T, client *clientv3.Client, key string, opts ...clientv3.OpOption) *watching {
	t.Helper()
	w := &watching{t: t, watcher: clientv3.NewWatcher(client), ctx: soon(t)}
	t.Cleanup(func() { w.watcher.Close() })
	w.out = w.watcher.Watch(w.ctx, key, append(opts, clientv3.WithCreatedNotify(), clientv3.WithPrevKV())...)
	resp := w.next()
	if !resp.Created {
		t.Fatalf("got %+v, want it created", resp)
	}
	w.created = resp.Header.Revision
	return w
}

// next is the next response.
func (w *watching) next() clientv3.WatchResponse {
	w.t.Helper()
	resp, ok := <-w.out
	if !ok {
		w.t.Fatal("the watch has ended")
	}
	return resp
}

// request asks for progress.
func (w *watching) request() {
	w.t.Helper()
	if err := w.watcher.RequestProgress(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

// progress asks for progress and returns the revision of the answer, which has to
// come next.
func (w *watching) progress() int64 {
	w.t.Helper()
	w.request()
	resp := w.next()
	if !resp.IsProgressNotify() {
		w.t.Fatalf("got %+v, want progress", resp)
	}
	return resp.Header.Revision
}

// revisions are those of the next n events, in however many responses.
func (w *watching) revisions(n int) (revisions []int64) {
	w.t.Helper()
	for len(revisions) < n {
		resp := w.next()
		if err := resp.Err(); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range resp.Events {
			revisions = append(revisions, e.Kv.ModRevision)
		}
	}
	return revisions
}

// eventually tries until it is so: for what shows by chance.
func eventually(t *testing.T, what string, try func() bool) {
	t.Helper()
	ctx := soon(t)
	for !try() {
		if ctx.Err() != nil {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}
