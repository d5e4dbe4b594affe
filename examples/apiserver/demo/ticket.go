package demo

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ticketStrategy handles writes to tickets.
type ticketStrategy struct{ strategy }

var _ rest.RESTCreateUpdateStrategy = ticketStrategy{}

// PrepareForCreate starts the generation.
func (ticketStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(*Ticket).Generation = 1
}

// PrepareForUpdate counts changes of the spec.
func (ticketStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	t, was := obj.(*Ticket), old.(*Ticket)
	t.Generation = was.Generation
	if t.Spec != was.Spec {
		t.Generation++
	}
}

// Validate bounds the time to live.
func (ticketStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	t := obj.(*Ticket)
	if t.Spec.TTLSeconds < 0 || t.Spec.TTLSeconds > MaxTicketTTLSeconds {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "ttlSeconds"), t.Spec.TTLSeconds,
			fmt.Sprintf("must be 0 (does not end) to %d", int64(MaxTicketTTLSeconds)))}
	}
	return nil
}

// ValidateUpdate asks the same of an update as of a create.
func (s ticketStrategy) ValidateUpdate(ctx context.Context, obj, _ runtime.Object) field.ErrorList {
	return s.Validate(ctx, obj)
}

// ticketTTL is the Store's TTLFunc. The storage does not keep a lease over an
// update by itself, so an update asks for a new one: it renews the ticket.
func ticketTTL(obj runtime.Object, _ uint64, _ bool) (uint64, error) {
	t, ok := obj.(*Ticket)
	if !ok {
		return 0, fmt.Errorf("ticketTTL: %T is not a Ticket", obj)
	}
	return uint64(t.Spec.TTLSeconds), nil
}
