package demo

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// widgetStrategy handles writes to a widget itself: they leave its status alone.
type widgetStrategy struct{ strategy }

// widgetStatusStrategy handles writes to /status: they leave all else alone.
type widgetStatusStrategy struct{ widgetStrategy }

var (
	_ rest.CreateUpdateResetFieldsStrategy = widgetStrategy{}
	_ statusStrategy                       = widgetStatusStrategy{}
)

// PrepareForCreate starts the generation and drops a status sent along.
func (widgetStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	w := obj.(*Widget)
	w.Generation = 1
	w.Status = WidgetStatus{}
}

// PrepareForUpdate keeps the status and counts changes of the spec.
func (widgetStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	w, was := obj.(*Widget), old.(*Widget)
	w.Status = was.Status
	w.Generation = was.Generation
	if w.Spec != was.Spec {
		w.Generation++
	}
}

// Validate checks what the types alone do not.
func (widgetStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	w := obj.(*Widget)
	if w.Spec.Size < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "size"), w.Spec.Size, "must be 0 or more")}
	}
	return nil
}

// ValidateUpdate asks the same of an update as of a create.
func (s widgetStrategy) ValidateUpdate(ctx context.Context, obj, _ runtime.Object) field.ErrorList {
	return s.Validate(ctx, obj)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (widgetStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return statusResets(GroupVersion)
}

// PrepareForUpdate keeps everything that is not the status.
func (widgetStatusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	w, was := obj.(*Widget), old.(*Widget)
	w.Spec = was.Spec
	keepMetadata(&w.ObjectMeta, &was.ObjectMeta)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (widgetStatusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return otherResets(GroupVersion)
}
