package apiserver

import (
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
)

// RESTOptionsGetter is the one line that wires an API server: after EtcdOptions.ApplyTo has set Config.RESTOptionsGetter,
//
//	config.RESTOptionsGetter = backends.RESTOptionsGetter(config.RESTOptionsGetter)
//
// It answers inner's options with their Decorator replaced by StorageDecorator, whatever it was, except where it is
// generic.UndecoratedStorage: such a resource has no watch cache, its reads come from etcd and need no floor, and it stays
// as it is, with upstream's own client. So do the resources that Config leaves out.
func (b *Backends) RESTOptionsGetter(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return &restOptionsGetter{inner: inner, decorator: b.StorageDecorator(), covers: b.cfg.covers}
}

type restOptionsGetter struct {
	inner     generic.RESTOptionsGetter
	decorator generic.StorageDecorator
	covers    func(schema.GroupResource) bool
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *restOptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	if g.inner == nil {
		return generic.RESTOptions{}, errors.New("apiserver: RESTOptionsGetter was given nil; call it after EtcdOptions.ApplyTo has set the getter")
	}
	opts, err := g.inner.GetRESTOptions(resource, example)
	if err != nil || isUndecorated(opts.Decorator) || !g.covers(resource) {
		return opts, err
	}
	opts.Decorator = g.decorator
	return opts, nil
}

// isUndecorated compares code, which tells a top-level function from all others.
func isUndecorated(d generic.StorageDecorator) bool {
	return reflect.ValueOf(d).Pointer() == reflect.ValueOf(generic.UndecoratedStorage).Pointer()
}
