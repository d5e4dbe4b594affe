package watchcache_test

import (
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

const prefix = "/pods/"

var (
	scheme = runtime.NewScheme()
	codec  = serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
	pods   = schema.GroupResource{Resource: "pods"}
)

func init() {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	memstorage.SupportProgress()
	klog.SetLogger(klog.Logger{}) // breaches are provoked here
}

func newPod() runtime.Object  { return &example.Pod{} }
func newPods() runtime.Object { return &example.PodList{} }

// cacherConfig is upstream's for pods.
func cacherConfig() cacher.Config {
	return cacher.Config{
		Versioner: storage.APIObjectVersioner{}, GroupResource: pods, ResourcePrefix: prefix, Codec: codec,
		KeyFunc:      func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr, NewFunc: newPod, NewListFunc: newPods,
	}
}

// everything lists all pods.
func everything(resourceVersion string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: resourceVersion, Recursive: true, Predicate: storage.Everything}
}

// values are those of all pods that a storage answers, by name.
func values(t *testing.T, s storage.Interface, resourceVersion string) (map[string]string, error) {
	list := &example.PodList{}
	if err := s.GetList(t.Context(), prefix, everything(resourceVersion), list); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, p := range list.Items {
		found[p.Name] = p.Labels["value"]
	}
	return found, nil
}

// breaches are those that were told of.
func breaches(t *testing.T, from prometheus.Gatherer) (n float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "rvfloor_breaches_total" {
			for _, m := range f.Metric {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

// TestMain checks at the end that nothing is left. Upstream's waits for a fresh cache know no
// context and outlive their cache by up to 3 s, hence the attempts.
func TestMain(m *testing.M) {
	code := m.Run()
	var err error
	for range 10 {
		if err = goleak.Find(); err == nil {
			break
		}
	}
	if code == 0 && err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}
