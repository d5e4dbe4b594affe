package sides

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/apis/example/install"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

const (
	// Pods is how many pods Fill writes.
	Pods = 100
	// PodPrefix is the resource prefix of the pods.
	PodPrefix = "/pods/"

	etcdPrefix = "/registry"
	namespace  = "default" // of the pods that Fill writes
)

var (
	podResource = schema.GroupResource{Resource: "pods"}
	codec       = newCodec()
)

func newCodec() runtime.Codec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

// encodePod is pod i of a namespace as an API server keeps it in etcd.
func encodePod(namespace string, i int) (key, value string, err error) {
	return EncodePod(&example.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("pod-%03d", i),
			Labels:    map[string]string{"app": "bench", "tier": fmt.Sprint(i % 10)},
		},
		Spec: example.PodSpec{NodeName: fmt.Sprintf("node-%d", i%5)},
	})
}

// PodKey is the key by which a storage knows a pod.
func PodKey(namespace, name string) string { return PodPrefix + namespace + "/" + name }

// EncodePod is a pod as an API server keeps it in etcd.
func EncodePod(pod *example.Pod) (key, value string, err error) {
	data, err := runtime.Encode(codec, pod)
	if err != nil {
		return "", "", fmt.Errorf("sides: encode a pod: %w", err)
	}
	return etcdPrefix + PodKey(pod.Namespace, pod.Name), string(data), nil
}

// DecodePod is the pod that an API server keeps in etcd at the key, without its
// revision, and the key by which a storage knows it; nil and "" where the key is no
// pod's. A value of nothing, as a deletion has it, is a pod of nothing.
func DecodePod(etcdKey, value []byte) (key string, pod *example.Pod, err error) {
	return Resource{}.Decode(etcdKey, value)
}

// Decode is DecodePod for an object of the resource.
func (r Resource) Decode(etcdKey, value []byte) (key string, pod *example.Pod, err error) {
	key, ok := strings.CutPrefix(string(etcdKey), r.folder())
	if !ok || !strings.HasPrefix(key, PodPrefix) {
		return "", nil, nil
	}
	pod = &example.Pod{}
	if len(value) > 0 {
		if err := runtime.DecodeInto(codec, value, pod); err != nil {
			return "", nil, fmt.Errorf("sides: decode %s: %w", etcdKey, err)
		}
	}
	return key, pod, nil
}

func podKeyFunc(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(PodPrefix, obj) }

// PodAttrs are what the pods can be selected by, spec.nodeName among them.
func PodAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("sides: attributes of a %T; want a pod", obj)
	}
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
	}, nil
}

// EtcdKey is where an API server keeps the object of the resource that a storage knows by key.
func (r Resource) EtcdKey(key string) string { return r.folder() + key }

func (r Resource) folder() string {
	if r.Name == "" {
		return etcdPrefix
	}
	return "/" + r.Name
}

// storageConfig is what an API server would hand down for a resource.
func storageConfig(endpoints []string, r Resource) *storagebackend.ConfigForResource {
	resource := podResource
	if r.Name != "" {
		resource.Resource = r.Name
	}
	cfg := storagebackend.NewDefaultConfig(r.folder(), codec)
	cfg.Transport.ServerList = endpoints
	cfg.Transformer = r.Transformer
	return cfg.ForResource(resource)
}
