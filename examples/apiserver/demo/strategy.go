package demo

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy is what all kinds have in common: how requests become stored
// objects. It satisfies most of rest.RESTCreateStrategy and
// rest.RESTUpdateStrategy.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	resource resource
}

// strategyOf handles writes to objects of the resource.
func strategyOf(r resource) rest.RESTCreateUpdateStrategy {
	s := strategy{ObjectTyper: Scheme, NameGenerator: names.SimpleNameGenerator, resource: r}
	switch r.kind {
	case "Widget":
		return widgetStrategy{s}
	case "Ticket":
		return ticketStrategy{s}
	case "Machine":
		return machineStrategy{s}
	}
	panic(fmt.Sprintf("no strategy for %s", r.kind))
}

// statusStrategyOf handles writes to /status of the resource; nil: it has none.
func statusStrategyOf(r resource) statusStrategy {
	switch s := strategyOf(r).(type) {
	case widgetStrategy:
		return widgetStatusStrategy{s}
	case machineStrategy:
		return machineStatusStrategy{s}
	}
	return nil
}

// NamespaceScoped says whether the kind belongs to namespaces. Namespaces are no
// objects here: any name serves.
func (s strategy) NamespaceScoped() bool { return s.resource.namespaced }

// AllowCreateOnUpdate is false: a PUT of an object that is not there is a 404.
func (strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is true: a PUT without a resourceVersion overwrites.
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

// Canonicalize has nothing to do: every value has one spelling.
func (strategy) Canonicalize(runtime.Object) {}

// WarningsOnCreate warns of nothing.
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate warns of nothing.
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// keepMetadata takes back what a write to /status says of the metadata that
// belongs to writers of the object itself.
func keepMetadata(m, was *metav1.ObjectMeta) {
	m.Generation = was.Generation
	m.Labels = was.Labels
	m.Annotations = was.Annotations
	m.Finalizers = was.Finalizers
	m.OwnerReferences = was.OwnerReferences
}

// statusResets tells server-side apply that a write to the object itself never
// owns its status.
func statusResets(gv schema.GroupVersion) map[fieldpath.APIVersion]*fieldpath.Set {
	return resets(gv, fieldpath.MakePathOrDie("status"))
}

// otherResets tells server-side apply that a write to /status owns only that.
func otherResets(gv schema.GroupVersion) map[fieldpath.APIVersion]*fieldpath.Set {
	return resets(gv,
		fieldpath.MakePathOrDie("spec"),
		fieldpath.MakePathOrDie("metadata", "labels"),
		fieldpath.MakePathOrDie("metadata", "annotations"),
		fieldpath.MakePathOrDie("metadata", "finalizers"),
		fieldpath.MakePathOrDie("metadata", "ownerReferences"),
	)
}

func resets(gv schema.GroupVersion, paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(gv.String()): fieldpath.NewSet(paths...),
	}
}
