package aggregator

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"sigs.k8s.io/yaml"

	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
	"github.com/rvfloor/rvfloor/examples/apiserver/server"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// patience decides only how long a broken test hangs.
const patience = time.Minute

var (
	widgets  = demo.GroupVersion.WithResource("widgets")
	machines = demo.PlantGroupVersion.WithResource("machines")
)

// TestBehindKubeAggregator registers the example with the manifests' APIServices
// at a kube-aggregator, and wants callers of the aggregator to be served as who
// they are there, and callers who go around it to get nothing.
func TestBehindKubeAggregator(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	front := newFrontProxy(t)
	core := startCore(t, front.ca, policy)

	aggregation := server.NewAggregation()
	aggregation.BindAddress = net.IPv4(127, 0, 0, 1)
	aggregation.Authentication.RemoteKubeConfigFile = core.kubeconfig(t)
	aggregation.Authorization.RemoteKubeConfigFile = core.kubeconfig(t)
	backend, err := server.Start(ctx, server.Options{Aggregation: aggregation})
	check(t, err)
	t.Cleanup(func() {
		if err := backend.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})

	var service corev1.Service
	read(t, "apiserver.yaml", "Service", &service)
	service.Spec.Type = corev1.ServiceTypeClusterIP // an API server would fill it in
	aggregator := startAggregator(t, etcdlab.Run(t, etcdlab.Config{}).Endpoints(), front, &service, backend.URL)
	register(t, ctx, as(aggregator, "alice"), "apiservices.yaml")

	alice, bob, eve := client(t, as(aggregator, "alice")), client(t, as(aggregator, "bob")), client(t, as(aggregator, "eve"))

	t.Run("discovery", func(t *testing.T) {
		d, err := discovery.NewDiscoveryClientForConfig(as(aggregator, "bob"))
		check(t, err)
		for gv, want := range map[string][]string{
			demo.GroupVersion.String():      {"tickets", "widgets", "widgets/status"},
			demo.PlantGroupVersion.String(): {"machines", "machines/status"},
		} {
			list, err := d.ServerResourcesForGroupVersion(gv)
			check(t, err)
			var got []string
			for _, r := range list.APIResources {
				got = append(got, r.Name)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q", gv, got, want)
			}
		}
	})

	t.Run("users", func(t *testing.T) {
		// Each is judged by the core under the name that the aggregator knows.
		w, err := alice.Resource(widgets).Namespace("default").Create(ctx, widget("a"), metav1.CreateOptions{})
		check(t, err)
		events, err := bob.Resource(widgets).Namespace("default").Watch(ctx, metav1.ListOptions{ResourceVersion: w.GetResourceVersion()})
		check(t, err)
		defer events.Stop()
		_, err = alice.Resource(widgets).Namespace("default").Create(ctx, widget("b"), metav1.CreateOptions{})
		check(t, err)
		for _, version := range []string{"", "0"} { // both verified
			list, err := bob.Resource(widgets).List(ctx, metav1.ListOptions{ResourceVersion: version})
			check(t, err)
			if len(list.Items) != 2 {
				t.Errorf("bob lists %d widgets at resourceVersion %q, want 2", len(list.Items), version)
			}
		}
		select {
		case e := <-events.ResultChan():
			if u, ok := e.Object.(*unstructured.Unstructured); !ok || e.Type != watch.Added || u.GetName() != "b" {
				t.Errorf("bob watches %v of %v", e.Type, e.Object)
			}
		case <-ctx.Done():
			t.Error("bob's watch gave nothing")
		}
		if _, err := bob.Resource(widgets).Namespace("default").Create(ctx, widget("c"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("bob creates: %v", err)
		}
		if _, err := eve.Resource(machines).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"eve"`) {
			t.Errorf("eve lists: %v", err)
		}
	})

	t.Run("past the aggregator", func(t *testing.T) {
		// Nobody proves to be a front proxy here, so the header says nothing.
		config := rest.CopyConfig(backend.ClientConfig)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header.Set("X-Remote-User", "alice")
				return next.RoundTrip(r)
			})
		})
		if _, err := client(t, config).Resource(widgets).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:anonymous") {
			t.Errorf("a forged header: %v", err)
		}
		if backend.Kubeconfig != "" || backend.ClientConfig.BearerToken != "" {
			t.Error("there is a token beside the users of the core")
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": demo.GroupVersion.String(), "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
}

func client(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	http, err := rest.HTTPClientFor(config)
	check(t, err)
	t.Cleanup(http.CloseIdleConnections)
	c, err := dynamic.NewForConfigAndClient(config, http)
	check(t, err)
	return c
}

// read decodes the manifest of this kind, and refuses fields that do not exist.
func read(t *testing.T, file, kind string, into any) {
	t.Helper()
	for _, doc := range documents(t, file) {
		var meta metav1.TypeMeta
		check(t, yaml.Unmarshal(doc, &meta))
		if meta.Kind == kind {
			check(t, yaml.UnmarshalStrict(doc, into))
			return
		}
	}
	t.Fatalf("%s has no %s", file, kind)
}

func documents(t *testing.T, file string) (docs [][]byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "apiserver", "manifests", file))
	check(t, err)
	for doc := range strings.SplitSeq(string(data), "\n---\n") {
		docs = append(docs, []byte(doc))
	}
	return docs
}

// register creates the APIServices and waits until the aggregator has found all
// of them available and passes requests on.
func register(t *testing.T, ctx context.Context, config *rest.Config, file string) {
	t.Helper()
	c, err := clientset.NewForConfig(config)
	check(t, err)
	services := c.ApiregistrationV1().APIServices()
	for _, doc := range documents(t, file) {
		var s apiregistrationv1.APIService
		check(t, yaml.UnmarshalStrict(doc, &s))
		_, err = services.Create(ctx, &s, metav1.CreateOptions{})
		check(t, err)
		await(t, ctx, c, s.Name)
		passesOn(t, ctx, config, s.Spec.Group+"/"+s.Spec.Version)
	}
}

func await(t *testing.T, ctx context.Context, c clientset.Interface, name string) {
	t.Helper()
	events, err := c.ApiregistrationV1().APIServices().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	check(t, err)
	defer events.Stop()
	var last any
	for e := range events.ResultChan() {
		last = e.Object
		if s, ok := e.Object.(*apiregistrationv1.APIService); ok {
			for _, condition := range s.Status.Conditions {
				if condition.Type == apiregistrationv1.Available && condition.Status == apiregistrationv1.ConditionTrue {
					return
				}
			}
		}
	}
	t.Fatalf("%s did not become available: %+v", name, last)
}

// passesOn asks until there is an answer: the handler of an APIService comes a
// little after its condition, and nothing tells when.
func passesOn(t *testing.T, ctx context.Context, config *rest.Config, gv string) {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(config)
	check(t, err)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := d.ServerResourcesForGroupVersion(gv)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", gv, err)
		}
	}
}
