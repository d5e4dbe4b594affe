package upstreamsuite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
)

var (
	scheme = newScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(s))
	utilruntime.Must(examplev1.AddToScheme(s))
	return s
}

// protoCodec is what the cached tests upstream store with; RunTestStats weighs objects by it.
func protoCodec() runtime.Codec {
	pb := protobuf.NewSerializer(scheme, scheme)
	return codecs.CodecForVersions(pb, pb, schema.GroupVersions{examplev1.SchemeGroupVersion}, nil)
}

func plainTransformer() value.Transformer { return identity.NewEncryptCheckTransformer() }

// defaultOptions is the set-up of a case that asks for nothing special: namespaced pods, without an index.
func defaultOptions() SetupOptions {
	return SetupOptions{
		KeyFunc:     func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(ResourcePrefix, obj) },
		GetAttrs:    podAttrs,
		Codec:       protoCodec(),
		Transformer: plainTransformer(),
	}
}

func clusterScoped(o *SetupOptions) {
	o.KeyFunc = func(obj runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc(ResourcePrefix, obj) }
}

// indexed gives the indexes that kube-apiserver keeps for pods.
func indexed(o *SetupOptions) {
	o.IndexerFuncs = storage.IndexerFuncs{"spec.nodeName": func(obj runtime.Object) string {
		if pod, ok := obj.(*example.Pod); ok {
			return pod.Spec.NodeName
		}
		return ""
	}}
	byPod := func(value func(*example.Pod) string) cache.IndexFunc {
		return func(obj any) ([]string, error) {
			pod, ok := obj.(*example.Pod)
			if !ok {
				return nil, fmt.Errorf("index of %T, want a pod", obj)
			}
			return []string{value(pod)}, nil
		}
	}
	o.Indexers = cache.Indexers{
		storage.FieldIndex("spec.nodeName"):      byPod(func(p *example.Pod) string { return p.Spec.NodeName }),
		storage.FieldIndex("metadata.namespace"): byPod(func(p *example.Pod) string { return p.Namespace }),
	}
}

func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("attributes of %T, want a pod", obj)
	}
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"status.phase":       string(pod.Status.Phase),
	}, nil
}

var errUnreadable = errors.New("made unreadable by the test")

// switchableTransformer stops reading from etcd when told to; writes go on.
type switchableTransformer struct {
	value.Transformer
	failing atomic.Bool
}

func (s *switchableTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if s.failing.Load() {
		return nil, false, errUnreadable
	}
	return s.Transformer.TransformFromStorage(ctx, data, dataCtx)
}

// switchableCodec stops decoding when told to; encoding goes on.
type switchableCodec struct {
	runtime.Codec
	failing atomic.Bool
}

func (s *switchableCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if s.failing.Load() {
		return nil, nil, errUnreadable
	}
	return s.Codec.Decode(data, defaults, into)
}

// jsonCodec stands under switchableCodec.
func jsonCodec() runtime.Codec { return codecs.LegacyCodec(examplev1.SchemeGroupVersion) }
