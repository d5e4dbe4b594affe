package demo

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Widget is an ordinary object: people write its spec, a controller would
// write its status through the /status subresource.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec,omitempty"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is what somebody wants a Widget to be.
type WidgetSpec struct {
	// Color is free text.
	Color string `json:"color,omitempty"`
	// Size is 0 or more; it has no unit.
	Size int32 `json:"size,omitempty"`
}

// WidgetStatus is what was seen of a Widget. Only the /status subresource
// changes it.
type WidgetStatus struct {
	// Phase is free text.
	Phase string `json:"phase,omitempty"`
	// ObservedGeneration is the metadata.generation that Phase speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// WidgetList is the answer to a LIST of widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

// Ticket is an object that etcd removes when its time is over.
type Ticket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec TicketSpec `json:"spec,omitempty"`
}

// TicketSpec says who holds a Ticket and for how long.
type TicketSpec struct {
	// Holder is free text.
	Holder string `json:"holder,omitempty"`
	// TTLSeconds is how long the ticket lives after its last write, in seconds,
	// at most MaxTicketTTLSeconds. 0 means that it does not end. The storage
	// adds up to 5 % (60 s at most), so that tickets can share a lease.
	TTLSeconds int64 `json:"ttlSeconds,omitempty"`
}

// MaxTicketTTLSeconds bounds TicketSpec.TTLSeconds to 30 days. etcd's own
// bound is far higher; a demo's ticket that outlives its data directory is
// more likely a slip of units.
const MaxTicketTTLSeconds = 30 * 24 * 60 * 60

// TicketList is the answer to a LIST of tickets.
type TicketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Ticket `json:"items"`
}

// Machine makes widgets. It belongs to no namespace.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSpec   `json:"spec,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

// MachineSpec is what a Machine is and shall do.
type MachineSpec struct {
	// Model is free text; every machine has one.
	Model string `json:"model,omitempty"`
	// Paused keeps it from making widgets.
	Paused bool `json:"paused,omitempty"`
}

// MachineStatus is what was seen of a Machine. Only the /status subresource
// changes it.
type MachineStatus struct {
	// State is free text.
	State string `json:"state,omitempty"`
	// Made is how many widgets it has made.
	Made int64 `json:"made,omitempty"`
}

// MachineList is the answer to a LIST of machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Machine `json:"items"`
}
