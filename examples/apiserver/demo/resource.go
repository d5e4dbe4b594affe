package demo

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is how a kind is named, shown in tables and selected by fields.
type resource struct {
	gv               schema.GroupVersion
	kind             string
	plural, singular string
	shortNames       []string
	namespaced       bool
	object, list     func() runtime.Object // each call gives a new one
	columns          []column
	fields           func(runtime.Object) fields.Set // for field selectors, beside the metadata
}

// resources are all of them.
var resources = []resource{widgets, tickets, machines}

var widgets = resource{
	gv: GroupVersion, kind: "Widget", plural: "widgets", singular: "widget", shortNames: []string{"wd"},
	namespaced: true,
	object:     func() runtime.Object { return &Widget{} },
	list:       func() runtime.Object { return &WidgetList{} },
	columns: []column{
		{"Color", "string", "What color it shall have.", func(o runtime.Object) any { return o.(*Widget).Spec.Color }},
		{"Size", "integer", "What size it shall have.", func(o runtime.Object) any { return o.(*Widget).Spec.Size }},
		{"Phase", "string", "What was seen of it.", func(o runtime.Object) any { return o.(*Widget).Status.Phase }},
	},
	fields: func(o runtime.Object) fields.Set {
		w := o.(*Widget)
		return fields.Set{"spec.color": w.Spec.Color, "status.phase": w.Status.Phase}
	},
}

var tickets = resource{
	gv: GroupVersion, kind: "Ticket", plural: "tickets", singular: "ticket", shortNames: []string{"tk"},
	namespaced: true,
	object:     func() runtime.Object { return &Ticket{} },
	list:       func() runtime.Object { return &TicketList{} },
	columns: []column{
		{"Holder", "string", "Who holds it.", func(o runtime.Object) any { return o.(*Ticket).Spec.Holder }},
		{"TTL", "integer", "Seconds that it lives after its last write; 0: it does not end.", func(o runtime.Object) any { return o.(*Ticket).Spec.TTLSeconds }},
	},
	fields: func(o runtime.Object) fields.Set { return fields.Set{"spec.holder": o.(*Ticket).Spec.Holder} },
}

var machines = resource{
	gv: PlantGroupVersion, kind: "Machine", plural: "machines", singular: "machine", shortNames: []string{"mc"},
	object: func() runtime.Object { return &Machine{} },
	list:   func() runtime.Object { return &MachineList{} },
	columns: []column{
		{"Model", "string", "What it is.", func(o runtime.Object) any { return o.(*Machine).Spec.Model }},
		{"State", "string", "What it was seen to do.", func(o runtime.Object) any { return o.(*Machine).Status.State }},
		{"Made", "integer", "How many widgets it has made.", func(o runtime.Object) any { return o.(*Machine).Status.Made }},
	},
	fields: func(o runtime.Object) fields.Set {
		m := o.(*Machine)
		return fields.Set{"spec.model": m.Spec.Model, "status.state": m.Status.State}
	},
}

func (r resource) gvk() schema.GroupVersionKind { return r.gv.WithKind(r.kind) }

// fieldNames are the fields beside the metadata that a selector may name.
func (r resource) fieldNames() []string { return slices.Sorted(maps.Keys(r.fields(r.object()))) }

// attributes is what selectors see of an object.
func (r resource) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	set := r.fields(obj)
	set["metadata.name"] = m.GetName()
	if r.namespaced {
		set["metadata.namespace"] = m.GetNamespace()
	}
	return m.GetLabels(), set, nil
}
