package apiserver

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/example"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/rvfloor/rvfloor/decorator"
)

// getter answers the same options for every resource, under a prefix of the resource's name.
type getter struct {
	config    *storagebackend.Config
	decorator generic.StorageDecorator
	err       error
}

func (g getter) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:           g.config.ForResource(resource),
		Decorator:               g.decorator,
		ResourcePrefix:          resource.Resource,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 1,
	}, g.err
}

// stock is what EtcdOptions.ApplyTo sets for resources with a watch cache.
func stock(c *storagebackend.ConfigForResource) getter {
	return getter{config: &c.Config, decorator: genericregistry.StorageWithCacher()}
}

// newRegistry is a generic registry of pods under the name of a resource, as an API server makes it.
func newRegistry(t *testing.T, resource string, options generic.RESTOptionsGetter) *genericregistry.Store {
	t.Helper()
	s, err := tryRegistry(resource, options)
	require.NoError(t, err)
	t.Cleanup(s.Destroy)
	return s
}

func tryRegistry(resource string, options generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	strategy := podStrategy{newScheme(), names.SimpleNameGenerator}
	s := &genericregistry.Store{
		NewFunc:                   newPod,
		NewListFunc:               newPodList,
		DefaultQualifiedResource:  example.Resource(resource),
		SingularQualifiedResource: example.Resource("pod"),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		TableConvertor:            rest.NewDefaultTableConvertor(example.Resource(resource)),
	}
	return s, s.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options, AttrFunc: storage.DefaultNamespaceScopedAttr})
}

// decorated answers the registry's storage, which must be ours.
func decorated(t *testing.T, s *genericregistry.Store) *decorator.Healing {
	t.Helper()
	store, ok := s.Storage.Storage.(*decorator.Healing)
	require.True(t, ok, "%T", s.Storage.Storage)
	return store
}

func inNamespace(ctx context.Context) context.Context {
	return genericapirequest.WithNamespace(ctx, "ns")
}

func create(t *testing.T, s *genericregistry.Store, name string) {
	t.Helper()
	_, err := s.Create(inNamespace(t.Context()), pod("ns", name), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	require.NoError(t, err)
}

// list answers the names that a read of the newest data shows. A cache that is still being filled is asked again, as
// clients do.
func list(t *testing.T, s *genericregistry.Store) []string {
	t.Helper()
	awaitReady(t, s)
	obj, err := s.List(inNamespace(t.Context()), &metainternalversion.ListOptions{})
	require.NoError(t, err)
	var found []string
	for _, p := range obj.(*example.PodList).Items {
		found = append(found, p.Name)
	}
	return found
}

func awaitReady(t *testing.T, s *genericregistry.Store) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Storage.Storage.ReadinessCheck() == nil }, wait, tick)
}

type podStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (podStrategy) NamespaceScoped() bool                                            { return true }
func (podStrategy) AllowCreateOnUpdate(context.Context) bool                         { return false }
func (podStrategy) AllowUnconditionalUpdate(context.Context) bool                    { return true }
func (podStrategy) PrepareForCreate(context.Context, runtime.Object)                 {}
func (podStrategy) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}
func (podStrategy) Validate(context.Context, runtime.Object) field.ErrorList         { return nil }
func (podStrategy) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (podStrategy) Canonicalize(runtime.Object)                                      {}
func (podStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
func (podStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// everything matches all objects.
var everything = storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()}
