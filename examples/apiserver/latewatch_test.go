package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

var duration = flag.Duration("duration", 5*time.Second, "how long TestLateWatch writes and reads, with rvfloor and again without")

// lateBy is how long etcd's watch messages take to the server that is read.
const lateBy = 300 * time.Millisecond

// TestLateWatch has two processes over one etcd: it writes through the one and,
// when a write is acknowledged, reads through the other one, whose watches are
// late. With rvfloor no read misses the write. Stock's do at resourceVersion 0,
// or the test would not bite: it goes on until one did. The long form is
//
//	go test -count 1 -v -run LateWatch ./examples/apiserver -duration 60s
func TestLateWatch(t *testing.T) {
	t.Run("ours", func(t *testing.T) {
		l := runLateWatch(t, nil, "--verified-reads-max-wait=1m") // on a busy machine, too
		for name, read := range l.reads {
			if read.missed > 0 {
				t.Errorf("%s: %d of %d missed a write that was acknowledged before; for one, %s", name, read.missed, read.count, read.example)
			}
		}
		if writes := l.writes(); l.refused > writes/10 {
			t.Errorf("%d reads were refused, after %d writes", l.refused, writes)
		}
	})
	t.Run("stock", func(t *testing.T) {
		missed := func(l *lateWatch) bool { return l.read(listZero).missed > 0 }
		if read := runLateWatch(t, missed, "--stock").read(listZero); read.missed == 0 {
			t.Errorf("%s: %d reads, and none missed a write", listZero, read.count)
		}
	})
}

// kind is what the test writes and reads.
type kind struct {
	schema.GroupVersionResource
	kind, namespace string
	spec            map[string]any
}

// kinds are two, so that a write of the one moves etcd on, and not what the
// other one's cache sees.
var kinds = []kind{
	{demo.GroupVersion.WithResource("widgets"), "Widget", "default", map[string]any{"color": "red"}},
	{demo.PlantGroupVersion.WithResource("machines"), "Machine", "", map[string]any{"model": "press"}},
}

func (k kind) of(server dynamic.Interface) dynamic.ResourceInterface {
	if k.namespace == "" {
		return server.Resource(k.GroupVersionResource)
	}
	return server.Resource(k.GroupVersionResource).Namespace(k.namespace)
}

// object is a new one.
func (k kind) object(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": k.spec}}
	object.SetGroupVersionKind(k.GroupVersion().WithKind(k.kind))
	object.SetName(name)
	return object
}

// prefix is where the server keeps the objects in etcd.
func (k kind) prefix() string {
	return "/demo.rvfloor.dev/" + k.Group + "/" + k.Resource + "/"
}

// writers is how many there are of each resource, each with an object of its own.
const writers = 4

// lateWatch is one run.
type lateWatch struct {
	etcd      *clientv3.Client
	near, far dynamic.Interface // written to and read

	mu      sync.Mutex
	refused int // answers with an error; client-go hides them by trying again
	reads   map[string]tally
}

// tally is of one kind of read.
type tally struct {
	count, missed int
	slowest       time.Duration
	example       string // of one that missed
}

// runLateWatch starts two processes with the arguments, and writes and reads for
// the duration, and beyond it until enough, which nil always is; beside that informers
// run, and are checked.
func runLateWatch(t *testing.T, enough func(*lateWatch) bool, args ...string) *lateWatch {
	ctx, cancel := context.WithTimeout(context.Background(), *duration+patience)
	t.Cleanup(cancel)
	cluster := etcdlab.Run(t, etcdlab.Config{})
	delayed, err := etcdlab.NewWatchDelay(cluster.Endpoints()[0], lateBy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(delayed.Close)
	l := &lateWatch{etcd: etcdlab.Connect(t, cluster, etcdlab.ClientConfig{}), reads: map[string]tally{}}
	serve := func(endpoint string, wrap func(http.RoundTripper) http.RoundTripper) dynamic.Interface {
		p := startProcess(t, ctx, t.TempDir(), append(args, "--etcd-servers", endpoint)...)
		t.Cleanup(func() {
			if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			p.wait(t)
		})
		return connect(t, p, wrap)
	}
	l.near = serve(cluster.Endpoints()[0], nil)
	l.far = serve(delayed.Endpoint(), l.countRefused)

	stopInformers := l.startInformers(t, ctx)
	end := time.Now().Add(*duration)
	over := func() bool {
		return time.Now().After(end) && (enough == nil || enough(l) || time.Now().After(end.Add(patience/2)))
	}
	var wg sync.WaitGroup
	for _, k := range kinds {
		for i := range writers {
			wg.Go(func() {
				if err := l.write(ctx, k, fmt.Sprintf("%s-%d", k.Resource, i), over); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	stopInformers()
	l.log(t)
	return l
}

// connect returns a client of the process, which does not limit its own rate.
func connect(t *testing.T, p *process, wrap func(http.RoundTripper) http.RoundTripper) dynamic.Interface {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.WrapTransport = -1, wrap
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	server, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *lateWatch) countRefused(inner http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := inner.RoundTrip(r)
		if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotFound {
			l.mu.Lock()
			l.refused++
			l.mu.Unlock()
		}
		return res, err
	})
}

// writes is how many there were: each is followed by one read of each kind.
func (l *lateWatch) writes() int { return l.read(listZero).count }

// read is of one kind, as it is now.
func (l *lateWatch) read(name string) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads[name]
}

// log prints the figures.
func (l *lateWatch) log(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d writes, %d reads refused\n%-20s %7s %7s  %s\n", l.writes(), l.refused, "", "reads", "missed", "slowest")
	for _, name := range slices.Sorted(maps.Keys(l.reads)) {
		r := l.reads[name]
		fmt.Fprintf(&b, "%-20s %7d %7d  %v\n", name, r.count, r.missed, r.slowest.Round(time.Millisecond))
	}
	t.Log(b.String())
}
