package demo

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	endpointsopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericserver "k8s.io/apiserver/pkg/server"

	metaopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// These come before a kind's name in the OpenAPI document, by the convention of
// reversed domain names.
const (
	modelPrefix      = "dev.rvfloor.demo.v1."
	plantModelPrefix = "dev.rvfloor.plant.v1alpha1."
)

// OpenAPIModelName is the name of the kind in the OpenAPI document.
func (Widget) OpenAPIModelName() string { return modelPrefix + "Widget" }

// OpenAPIModelName is the name of the kind in the OpenAPI document.
func (WidgetList) OpenAPIModelName() string { return modelPrefix + "WidgetList" }

// OpenAPIModelName is the name of the type in the OpenAPI document.
func (WidgetSpec) OpenAPIModelName() string { return modelPrefix + "WidgetSpec" }

// OpenAPIModelName is the name of the type in the OpenAPI document.
func (WidgetStatus) OpenAPIModelName() string { return modelPrefix + "WidgetStatus" }

// OpenAPIModelName is the name of the kind in the OpenAPI document.
func (Ticket) OpenAPIModelName() string { return modelPrefix + "Ticket" }

// OpenAPIModelName is the name of the kind in the OpenAPI document.
func (TicketList) OpenAPIModelName() string { return modelPrefix + "TicketList" }

// OpenAPIModelName is the name of the type in the OpenAPI document.
func (TicketSpec) OpenAPIModelName() string { return modelPrefix + "TicketSpec" }

// OpenAPIModelName is the name of the kind in the OpenAPI document.
func (Machine) OpenAPIModelName() string { return plantModelPrefix + "Machine" }

// OpenAPIModelName is the name of the kind in the OpenAPI document.
func (MachineList) OpenAPIModelName() string { return plantModelPrefix + "MachineList" }

// OpenAPIModelName is the name of the type in the OpenAPI document.
func (MachineSpec) OpenAPIModelName() string { return plantModelPrefix + "MachineSpec" }

// OpenAPIModelName is the name of the type in the OpenAPI document.
func (MachineStatus) OpenAPIModelName() string { return plantModelPrefix + "MachineStatus" }

// OpenAPIConfig describes the API as OpenAPI v2, OpenAPIV3Config as v3. An API
// server does not start without the latter: server-side apply reads it.
func OpenAPIConfig() *common.Config {
	c := genericserver.DefaultOpenAPIConfig(Definitions, newNamer())
	c.Info.Title = title
	return c
}

// OpenAPIV3Config describes the API as OpenAPI v3.
func OpenAPIV3Config() *common.OpenAPIV3Config {
	c := genericserver.DefaultOpenAPIV3Config(Definitions, newNamer())
	c.Info.Title = title
	return c
}

const title = "rvfloor example API server"

// newNamer knows the versioned kinds only: Scheme holds them under the internal
// version too, and documents would then list an API version nobody can ask for.
func newNamer() *endpointsopenapi.DefinitionNamer {
	versioned := runtime.NewScheme()
	utilruntime.Must(AddToScheme(versioned))
	return endpointsopenapi.NewDefinitionNamer(versioned)
}

// Definitions returns the schemas of this package's types, written by hand, and
// those of meta/v1. Upstream generates the latter into every server; the copy in
// apiextensions-apiserver is one that can be imported.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	defs := metaopenapi.GetOpenAPIDefinitions(ref)
	for name, def := range map[string]common.OpenAPIDefinition{
		Widget{}.OpenAPIModelName(): kind(ref, "Widget is an ordinary object with a spec and a status.", map[string]string{
			"metadata": metav1.ObjectMeta{}.OpenAPIModelName(),
			"spec":     WidgetSpec{}.OpenAPIModelName(),
			"status":   WidgetStatus{}.OpenAPIModelName(),
		}),
		WidgetSpec{}.OpenAPIModelName(): plain("WidgetSpec is what somebody wants a Widget to be.", map[string]spec.Schema{
			"color": property("string", "", "Free text."),
			"size":  property("integer", "int32", "0 or more, without a unit."),
		}),
		WidgetStatus{}.OpenAPIModelName(): plain("WidgetStatus is what was seen of a Widget.", map[string]spec.Schema{
			"phase":              property("string", "", "Free text."),
			"observedGeneration": property("integer", "int64", "The metadata.generation that phase speaks of."),
		}),
		WidgetList{}.OpenAPIModelName(): list(ref, "WidgetList is a list of Widgets.", Widget{}.OpenAPIModelName()),

		Ticket{}.OpenAPIModelName(): kind(ref, "Ticket is an object that the storage removes when its time is over.", map[string]string{
			"metadata": metav1.ObjectMeta{}.OpenAPIModelName(),
			"spec":     TicketSpec{}.OpenAPIModelName(),
		}),
		TicketSpec{}.OpenAPIModelName(): plain("TicketSpec says who holds a Ticket and for how long.", map[string]spec.Schema{
			"holder":     property("string", "", "Free text."),
			"ttlSeconds": property("integer", "int64", "Seconds that the ticket lives after its last write; 0 means that it does not end."),
		}),
		TicketList{}.OpenAPIModelName(): list(ref, "TicketList is a list of Tickets.", Ticket{}.OpenAPIModelName()),

		Machine{}.OpenAPIModelName(): kind(ref, "Machine makes widgets. It belongs to no namespace.", map[string]string{
			"metadata": metav1.ObjectMeta{}.OpenAPIModelName(),
			"spec":     MachineSpec{}.OpenAPIModelName(),
			"status":   MachineStatus{}.OpenAPIModelName(),
		}),
		MachineSpec{}.OpenAPIModelName(): plain("MachineSpec is what a Machine is and shall do.", map[string]spec.Schema{
			"model":  property("string", "", "Free text; every machine has one."),
			"paused": property("boolean", "", "Keeps it from making widgets."),
		}),
		MachineStatus{}.OpenAPIModelName(): plain("MachineStatus is what was seen of a Machine.", map[string]spec.Schema{
			"state": property("string", "", "Free text."),
			"made":  property("integer", "int64", "How many widgets it has made."),
		}),
		MachineList{}.OpenAPIModelName(): list(ref, "MachineList is a list of Machines.", Machine{}.OpenAPIModelName()),
	} {
		defs[name] = def
	}
	return defs
}

// property has a plain value.
func property(typ, format, description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description,
		Type:        []string{typ},
		Format:      format,
	}}
}

// plain is an object of which all properties hold plain values.
func plain(description string, properties map[string]spec.Schema) common.OpenAPIDefinition {
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description,
		Type:        []string{"object"},
		Properties:  properties,
	}}}
}

// kind is an object with kind, apiVersion and the given properties, each of
// which is another definition.
func kind(ref common.ReferenceCallback, description string, properties map[string]string) common.OpenAPIDefinition {
	def := plain(description, typeMeta())
	for name, model := range properties {
		def.Schema.Properties[name] = spec.Schema{SchemaProps: spec.SchemaProps{
			Default: map[string]any{},
			Ref:     ref(model),
		}}
		def.Dependencies = append(def.Dependencies, model)
	}
	return def
}

// list is the list kind of the definition item.
func list(ref common.ReferenceCallback, description, item string) common.OpenAPIDefinition {
	def := kind(ref, description, map[string]string{"metadata": metav1.ListMeta{}.OpenAPIModelName()})
	def.Schema.Required = []string{"items"}
	def.Schema.Properties["items"] = spec.Schema{SchemaProps: spec.SchemaProps{
		Type: []string{"array"},
		Items: &spec.SchemaOrArray{Schema: &spec.Schema{SchemaProps: spec.SchemaProps{
			Default: map[string]any{},
			Ref:     ref(item),
		}}},
	}}
	def.Dependencies = append(def.Dependencies, item)
	return def
}

func typeMeta() map[string]spec.Schema {
	return map[string]spec.Schema{
		"kind":       property("string", "", "The kind of this object."),
		"apiVersion": property("string", "", "The API group and version of this object."),
	}
}
