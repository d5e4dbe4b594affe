package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// sideSpec says what a side is.
type sideSpec struct {
	name string
	// fresh: an answer must reflect every write acknowledged before the call.
	fresh bool
	// items is what every answer must hold.
	items int
	open  opener
}

// opener connects a side to its port, and answers what it is asked by and what
// ends it, once each has all that it needs to answer.
type opener func(context.Context, *sides.Port) (sides.Call, func() error, error)

// side is an open side.
type side struct {
	sideSpec
	call sides.Call
	end  func() error
	port *sides.Port
}

// openSides opens all or none.
func openSides(ctx context.Context, l *sides.Lab, specs []sideSpec) ([]*side, error) {
	var opened []*side
	for i, spec := range specs {
		ask, end, err := spec.open(ctx, l.Ports[i])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bench: open %s: %w", spec.name, err), closeSides(opened))
		}
		opened = append(opened, &side{sideSpec: spec, call: ask, end: end, port: l.Ports[i]})
	}
	return opened, nil
}

func closeSides(opened []*side) error {
	var errs []error
	for _, s := range opened {
		errs = append(errs, s.end())
	}
	return errors.Join(errs...)
}

// cached opens a storage with a watch cache and asks it.
func cached(kind sides.Kind, ask func(storage.Interface) sides.Call) opener {
	return func(ctx context.Context, port *sides.Port) (sides.Call, func() error, error) {
		store, end, err := sides.Open(ctx, kind, port)
		if err != nil {
			return nil, nil, err
		}
		return ask(store), end, nil
	}
}
