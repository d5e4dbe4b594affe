package demo

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/names"
)

// strategy is what both kinds have in common: how requests become stored
// objects. It satisfies most of rest.RESTCreateStrategy and
// rest.RESTUpdateStrategy.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func newStrategy() strategy {
	return strategy{ObjectTyper: Scheme, NameGenerator: names.SimpleNameGenerator}
}

// NamespaceScoped is true for both kinds. Namespaces are no objects here: any
// name serves.
func (strategy) NamespaceScoped() bool { return true }

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
