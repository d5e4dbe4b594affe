package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestDataDirKeepsObjects stops a server and starts another one in its folder,
// with and without rvfloor in turn: each finds what the other wrote.
func TestDataDirKeepsObjects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when", "missing")
	var want []string
	for i, name := range []string{"a", "b", "c"} {
		func() {
			running, err := server.Start(t.Context(), server.Options{DataDir: dir, Stock: i == 1})
			if err != nil {
				t.Fatal(err)
			}
			client, err := rest.HTTPClientFor(running.ClientConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			c := &caller{Running: running, http: client}
			if got := c.must(t, 200, request{Method: "GET", Path: widgets}).names(); !equal(got, want) {
				t.Errorf("start %d found %v, want %v", i, got, want)
			}
			c.must(t, 201, post(widgets, object("Widget", name, "", `{}`)))
			want = append(want, name)

			if _, err := server.Start(t.Context(), server.Options{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "--data-dir") {
				t.Errorf("a second server in the same folder: %v, want an error about --data-dir", err)
			}
			if err := running.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			if err := running.Stop(); err != nil {
				t.Errorf("stop again: %v", err)
			}
			<-running.Done()
		}()
	}
}

func equal(a, b []string) bool { return strings.Join(a, " ") == strings.Join(b, " ") }

// TestStopEndsWatches stops a server while a watch is open: it ends as
// kube-apiserver ends one, with a whole HTTP body.
func TestStopEndsWatches(t *testing.T) {
	etcd := etcdlab.Run(t, etcdlab.Config{})
	c := start(t, server.Options{EtcdServers: etcd.Endpoints()})
	c.must(t, 201, post(widgets, object("Widget", "a", "", `{}`)))
	s, a, err := c.watch(t.Context(), widgets+"?watch=true&resourceVersion=0")
	if err != nil || s == nil {
		t.Fatalf("watch: %v, %v", a, err)
	}
	defer s.close()
	if _, err := s.next(1); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- c.Stop() }()
	if events, err := s.next(1); !errors.Is(err, io.EOF) {
		t.Errorf("the watch gave %v, %v; want its end", events, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	// The etcd was not the server's to stop, and another server can use it.
	again := start(t, server.Options{EtcdServers: etcd.Endpoints()})
	if got := again.must(t, 200, request{Method: "GET", Path: widgets}).names(); !equal(got, []string{"a"}) {
		t.Errorf("the etcd has %v", got)
	}
}

// TestLoopbackConfig uses the server's own client configuration.
func TestLoopbackConfig(t *testing.T) {
	c := start(t, server.Options{})
	client, err := rest.HTTPClientFor(c.LoopbackConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	res, err := client.Get(c.LoopbackConfig.Host + api)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("%s answers %s", api, res.Status)
	}
}

// TestBadOptions wants errors that name the flag and say what to do.
func TestBadOptions(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		options   server.Options
		flag, fix string
	}{
		"port too high":      {server.Options{Port: 65536}, "--port 65536", "use 1 to 65535"},
		"port negative":      {server.Options{Port: -1}, "--port -1", "0 for any free one"},
		"port taken":         {server.Options{Port: taken.Addr().(*net.TCPAddr).Port}, "--port", "try another"},
		"data dir is a file": {server.Options{DataDir: file}, "--data-dir " + file, "name a folder"},
		"data dir in a file": {server.Options{DataDir: filepath.Join(file, "x")}, "--data-dir", "name a folder"},
		"two etcds":          {server.Options{DataDir: "x", EtcdServers: []string{"http://127.0.0.1:2379"}}, "--data-dir", "one of the two"},
		"etcd without http":  {server.Options{EtcdServers: []string{"127.0.0.1:2379"}}, "--etcd-servers", "http://"},
		"etcd with a path":   {server.Options{EtcdServers: []string{"http://127.0.0.1:2379/x"}}, "--etcd-servers", "http://"},
		"etcd with TLS":      {server.Options{EtcdServers: []string{"https://127.0.0.1:2379"}}, "--etcd-servers", "use an http://"},
		"an empty etcd":      {server.Options{EtcdServers: []string{""}}, "--etcd-servers", "http://"},
	} {
		t.Run(name, func(t *testing.T) {
			running, err := server.Start(t.Context(), tc.options)
			if err == nil {
				running.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tc.flag) || !strings.Contains(err.Error(), tc.fix) {
				t.Errorf("%q does not say %q and %q", err, tc.flag, tc.fix)
			}
		})
	}
}

// TestStartIsStopped starts with a context that has ended: nothing is left (which
// TestMain sees), and the error is the context's.
func TestStartIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody pressed Ctrl-C")
	cancel(why)
	if _, err := server.Start(ctx, server.Options{}); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// TestStartGivesUp starts over an etcd that is not there, with little patience.
func TestStartGivesUp(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = server.Start(ctx, server.Options{EtcdServers: []string{"http://" + nobody.Addr().String()}})
	if err == nil || !strings.Contains(err.Error(), "--etcd-servers") {
		t.Errorf("got %v, want an error about --etcd-servers", err)
	}
}
