package demo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// statusStrategy handles writes to a /status.
type statusStrategy = rest.UpdateResetFieldsStrategy

// statusStore serves a /status. It names the few verbs it allows instead of
// embedding the Store, which would allow them all.
type statusStore struct{ store *registry.Store }

var (
	_ rest.Patcher             = (*statusStore)(nil)
	_ rest.ResetFieldsStrategy = (*statusStore)(nil)
	_ rest.TableConvertor      = (*statusStore)(nil)
)

// newStatusStore takes a copy of the store of the objects: it shares the storage
// and differs in its strategy.
func newStatusStore(store registry.Store, s statusStrategy) *statusStore {
	store.UpdateStrategy = s
	store.ResetFieldsStrategy = s
	return &statusStore{store: &store}
}

// New implements rest.Storage.
func (s *statusStore) New() runtime.Object { return s.store.New() }

// Destroy does nothing: the storage belongs to the store of the objects.
func (s *statusStore) Destroy() {}

// Get implements rest.Patcher.
func (s *statusStore) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update implements rest.Patcher. A status is never created without its object.
func (s *statusStore) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, objInfo, createValidation, updateValidation, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *statusStore) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (s *statusStore) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, tableOptions)
}
