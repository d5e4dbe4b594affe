package demo

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// GroupVersion is the API group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "demo.rvfloor.dev", Version: "v1"}

var (
	// Scheme knows this package's kinds, and the meta/v1 kinds that every API
	// server answers with.
	Scheme = newServerScheme()
	// Codecs encodes and decodes the kinds in Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)
	// ParameterCodec decodes query parameters (ListOptions and the like).
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

// AddToScheme registers the v1 kinds and the option kinds that clients send,
// which is all that a client of this API needs.
func AddToScheme(scheme *runtime.Scheme) error {
	addKinds(scheme, GroupVersion)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return scheme.SetVersionPriority(GroupVersion)
}

func addKinds(scheme *runtime.Scheme, gv schema.GroupVersion) {
	scheme.AddKnownTypes(gv, &Widget{}, &WidgetList{}, &Ticket{}, &TicketList{})
}

func newServerScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))

	// The API machinery converts every request to the internal version, the
	// hub. The same Go types stand for it: such a conversion is a copy.
	addKinds(scheme, schema.GroupVersion{Group: GroupVersion.Group, Version: runtime.APIVersionInternal})

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
