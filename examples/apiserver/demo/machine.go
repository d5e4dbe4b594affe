package demo

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// machineStrategy handles writes to a machine itself: they leave its status alone.
type machineStrategy struct{ strategy }

// machineStatusStrategy handles writes to /status: they leave all else alone.
type machineStatusStrategy struct{ machineStrategy }

var (
	_ rest.CreateUpdateResetFieldsStrategy = machineStrategy{}
	_ statusStrategy                       = machineStatusStrategy{}
)

// PrepareForCreate starts the generation and drops a status sent along.
func (machineStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	m := obj.(*Machine)
	m.Generation = 1
	m.Status = MachineStatus{}
}

// PrepareForUpdate keeps the status and counts changes of the spec.
func (machineStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	m, was := obj.(*Machine), old.(*Machine)
	m.Status = was.Status
	m.Generation = was.Generation
	if m.Spec != was.Spec {
		m.Generation++
	}
}

// Validate checks what the types alone do not.
func (machineStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	if obj.(*Machine).Spec.Model == "" {
		return field.ErrorList{field.Required(field.NewPath("spec", "model"), "say what the machine is")}
	}
	return nil
}

// ValidateUpdate asks the same of an update as of a create.
func (s machineStrategy) ValidateUpdate(ctx context.Context, obj, _ runtime.Object) field.ErrorList {
	return s.Validate(ctx, obj)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (machineStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return statusResets(PlantGroupVersion)
}

// PrepareForUpdate keeps everything that is not the status.
func (machineStatusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	m, was := obj.(*Machine), old.(*Machine)
	m.Spec = was.Spec
	keepMetadata(&m.ObjectMeta, &was.ObjectMeta)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (machineStatusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return otherResets(PlantGroupVersion)
}
