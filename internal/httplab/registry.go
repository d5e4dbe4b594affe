package httplab

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
)

// newRegistry is the storage of pods as an API server's endpoints use it.
func newRegistry(store storage.Interface, prefix string) *registry.Store {
	return &registry.Store{
		NewFunc:                  NewPod,
		NewListFunc:              NewPodList,
		DefaultQualifiedResource: example.Resource("pods"),
		PredicateFunc: func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: PodAttrs}
		},
		KeyRootFunc: func(ctx context.Context) string { return registry.NamespaceKeyRootFunc(ctx, prefix) },
		KeyFunc: func(ctx context.Context, name string) (string, error) {
			return registry.NamespaceKeyFunc(ctx, prefix, name)
		},
		ObjectNameFunc:   func(obj runtime.Object) (string, error) { return obj.(*example.Pod).Name, nil },
		CreateStrategy:   strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator},
		Storage:          registry.DryRunnableStorage{Storage: store, Codec: Codec},
		StorageVersioner: examplev1.SchemeGroupVersion,
	}
}

// NewPod is an empty pod.
func NewPod() runtime.Object { return &example.Pod{} }

// NewPodList is an empty list of pods.
func NewPodList() runtime.Object { return &example.PodList{} }

// PodAttrs are what selectors of pods see.
func PodAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, errors.New("httplab: not a pod")
	}
	return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace}, nil
}

// strategy lets every pod through.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (strategy) NamespaceScoped() bool                                     { return true }
func (strategy) PrepareForCreate(context.Context, runtime.Object)          {}
func (strategy) Validate(context.Context, runtime.Object) field.ErrorList  { return nil }
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) Canonicalize(runtime.Object)                               {}
