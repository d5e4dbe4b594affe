package demo

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (in *Widget) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopy returns a copy that shares no memory with in.
func (in *Widget) DeepCopy() *Widget {
	if in == nil {
		return nil
	}
	out := *in // spec and status hold plain values
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *WidgetList) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopy returns a copy that shares no memory with in.
func (in *WidgetList) DeepCopy() *WidgetList {
	if in == nil {
		return nil
	}
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Widget, len(in.Items))
		for i := range in.Items {
			out.Items[i] = *in.Items[i].DeepCopy()
		}
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *Ticket) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopy returns a copy that shares no memory with in.
func (in *Ticket) DeepCopy() *Ticket {
	if in == nil {
		return nil
	}
	out := *in // the spec holds plain values
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *TicketList) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopy returns a copy that shares no memory with in.
func (in *TicketList) DeepCopy() *TicketList {
	if in == nil {
		return nil
	}
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Ticket, len(in.Items))
		for i := range in.Items {
			out.Items[i] = *in.Items[i].DeepCopy()
		}
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *Machine) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopy returns a copy that shares no memory with in.
func (in *Machine) DeepCopy() *Machine {
	if in == nil {
		return nil
	}
	out := *in // spec and status hold plain values
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (in *MachineList) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopy returns a copy that shares no memory with in.
func (in *MachineList) DeepCopy() *MachineList {
	if in == nil {
		return nil
	}
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Machine, len(in.Items))
		for i := range in.Items {
			out.Items[i] = *in.Items[i].DeepCopy()
		}
	}
	return &out
}
