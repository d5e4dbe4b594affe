package server_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
	"github.com/rvfloor/rvfloor/examples/apiserver/server"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestWriteHereIsReadThere writes to other API servers, one with rvfloor and one
// without, and asks one over the same etcd right after the answer: every kind of
// read of the newest data has it. (At resourceVersion 0 stock promises no such thing.)
func TestWriteHereIsReadThere(t *testing.T) {
	etcd := etcdlab.Run(t, etcdlab.Config{})
	ours := start(t, server.Options{EtcdServers: etcd.Endpoints()})
	writers := []*caller{
		start(t, server.Options{EtcdServers: etcd.Endpoints()}),
		start(t, server.Options{EtcdServers: etcd.Endpoints(), Stock: true}),
	}

	const rounds = 60
	for i := range rounds {
		other, name := writers[i/4%2], fmt.Sprintf("w%03d", i)
		written, err := strconv.ParseUint(other.must(t, 201, post(widgets, object("Widget", name, "", `{}`))).version(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		query := []string{"", "?resourceVersion=0", "?limit=1000", "?resourceVersion=0&limit=1"}[i%4]
		list := ours.must(t, 200, request{Method: "GET", Path: widgets + query})
		if names := list.names(); len(names) != i+1 || names[i] != name {
			t.Fatalf("list %q has %d widgets, the last one written is %s, number %d", query, len(names), name, i+1)
		}
		if rv, err := strconv.ParseUint(list.version(), 10, 64); err != nil || rv < written {
			t.Fatalf("list %q is of revision %q, the write of %d", query, list.version(), written)
		}
		ours.must(t, 200, request{Method: "GET", Path: widgets + "/" + name + "?resourceVersion=0"})
		// A write to the other kind moves etcd on, and these watch caches not.
		other.must(t, 201, post(tickets, object("Ticket", name, "", `{}`)))
	}

	s, a, err := ours.watch(t.Context(), widgets+"?watch=true")
	if err != nil || s == nil {
		t.Fatalf("watch: %v, %v", a, err)
	}
	defer s.close()
	if _, err := s.next(rounds); err != nil {
		t.Fatalf("a watch that begins at the newest state lacks some of it: %v", err)
	}
}

// TestInformer runs client-go's typed client and a shared informer, which is
// what most readers of an API server are, on both servers, and where no cache may answer.
func TestInformer(t *testing.T) {
	direct := apiserver.NewOptions()
	direct.Config.Strategy = decorator.StrategyDirect
	for name, options := range map[string]server.Options{"ours": {}, "stock": {Stock: true}, "direct": {VerifiedReads: direct}} {
		t.Run(name, func(t *testing.T) {
			c := start(t, options)
			client := typedClient(t, c.ClientConfig)
			create := func(name string) {
				t.Helper()
				w := &demo.Widget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: demo.WidgetSpec{Color: "red"}}
				if err := client.Post().Namespace("default").Resource("widgets").Body(w).Do(t.Context()).Into(w); err != nil {
					t.Fatal(err)
				}
			}
			create("before")

			added := make(chan string)
			informer := cache.NewSharedIndexInformer(
				cache.NewListWatchFromClient(client, "widgets", "default", fields.Everything()), &demo.Widget{}, 0, nil)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
				select {
				case added <- obj.(*demo.Widget).Name:
				case <-ctx.Done():
				}
			}}); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); informer.RunWithContext(ctx) }()
			defer func() { stop(); <-ended }()

			wait := func(want string) {
				t.Helper()
				select {
				case got := <-added:
					if got != want {
						t.Fatalf("the informer says %q was added, want %q", got, want)
					}
				case <-ctx.Done():
					t.Fatalf("the informer never saw %q", want)
				}
			}
			wait("before")
			create("later")
			wait("later")
		})
	}
}

// typedClient is a client of package demo's kinds.
func typedClient(t *testing.T, config *rest.Config) *rest.RESTClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := demo.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &demo.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Client.CloseIdleConnections)
	return client
}
