package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
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

// opener connects a side to its port, once each has all that it needs to answer.
type opener func(context.Context, *sides.Port) (source, error)

// source is what a side is asked by, what ends it, and its storage; etcd-get has none.
type source struct {
	call  sides.Call
	end   func() error
	store storage.Interface
	// informed is what informers watch; nil in other scenarios.
	informed *server
}

// side is an open side.
type side struct {
	sideSpec
	source
	port *sides.Port
}

// openSides opens all or none.
func openSides(ctx context.Context, l *sides.Lab, specs []sideSpec) ([]*side, error) {
	var opened []*side
	for i, spec := range specs {
		src, err := spec.open(ctx, l.Ports[i])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bench: open %s: %w", spec.name, err), closeSides(opened))
		}
		opened = append(opened, &side{sideSpec: spec, source: src, port: l.Ports[i]})
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
	return func(ctx context.Context, port *sides.Port) (source, error) {
		store, end, err := sides.Open(ctx, kind, port)
		if err != nil {
			return source{}, err
		}
		return source{call: ask(store), end: end, store: store}, nil
	}
}

// tellAhead tells how often a progress request that was sent beside the floor read
// brought the cache to the floor, in all runs and the warm-up.
func (b *bench) tellAhead() {
	for _, s := range b.sides {
		if store, ok := s.store.(*decorator.Healing); ok {
			paid, sent := store.Store().AheadPaid()
			fmt.Fprintf(b.log, "%s: %d progress requests beside a floor read, %d of them sufficed\n", s.name, sent, paid)
		}
	}
}
