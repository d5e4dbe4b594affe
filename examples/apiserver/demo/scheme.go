package demo

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var (
	// GroupVersion is the API group and version of Widget and Ticket.
	GroupVersion = schema.GroupVersion{Group: "demo.rvfloor.dev", Version: "v1"}
	// PlantGroupVersion is the API group and version of Machine.
	PlantGroupVersion = schema.GroupVersion{Group: "plant.rvfloor.dev", Version: "v1alpha1"}
	// GroupVersions are all that this package has.
	GroupVersions = schema.GroupVersions{GroupVersion, PlantGroupVersion}
)

var (
	// Scheme knows this package's kinds, and the meta/v1 kinds that every API
	// server answers with.
	Scheme = newServerScheme()
	// Codecs encodes and decodes the kinds in Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)
	// ParameterCodec decodes query parameters (ListOptions and the like).
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

// AddToScheme registers the versioned kinds and the option kinds that clients
// send, which is all that a client of these APIs needs.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, gv := range GroupVersions {
		addKinds(scheme, gv, gv.Version)
		metav1.AddToGroupVersion(scheme, gv)
		if err := scheme.SetVersionPriority(gv); err != nil {
			return err
		}
	}
	return nil
}

// addKinds registers the kinds of gv's group under a version.
func addKinds(scheme *runtime.Scheme, gv schema.GroupVersion, version string) {
	under := schema.GroupVersion{Group: gv.Group, Version: version}
	switch gv {
	case GroupVersion:
		scheme.AddKnownTypes(under, &Widget{}, &WidgetList{}, &Ticket{}, &TicketList{})
	case PlantGroupVersion:
		scheme.AddKnownTypes(under, &Machine{}, &MachineList{})
	}
}

func newServerScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))

	// The API machinery converts every request to the internal version, the
	// hub. The same Go types stand for it: such a conversion is a copy.
	for _, gv := range GroupVersions {
		addKinds(scheme, gv, runtime.APIVersionInternal)
	}
	for _, r := range resources {
		utilruntime.Must(addFieldLabels(scheme, r))
	}

	// Errors, discovery and options are spoken in the group "", version "v1".
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, v1)
	scheme.AddUnversionedTypes(v1,
		&metav1.Status{},
		&metav1.APIVersions{},
		&metav1.APIGroupList{},
		&metav1.APIGroup{},
		&metav1.APIResourceList{},
	)
	return scheme
}

// addFieldLabels lets field selectors name the fields of the resource, beside the
// metadata.name and metadata.namespace that every kind has.
func addFieldLabels(scheme *runtime.Scheme, r resource) error {
	names := r.fieldNames()
	return scheme.AddFieldLabelConversionFunc(r.gvk(), func(label, value string) (string, string, error) {
		if slices.Contains(names, label) {
			return label, value, nil
		}
		if label, value, err := runtime.DefaultMetaV1FieldSelectorConversion(label, value); err == nil {
			return label, value, nil
		}
		return "", "", fmt.Errorf("%q is no field that selects a %s: use metadata.name, metadata.namespace or one of %q", label, r.kind, names)
	})
}
