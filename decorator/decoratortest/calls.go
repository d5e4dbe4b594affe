package decoratortest

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// view is what one read answered.
type view struct {
	revision uint64            // of the answer as a whole; 0: it has none
	objects  map[string]uint64 // revision by name
}

// call is one way to read. Its view holds the object of the write where that is
// there.
type call struct {
	name string
	read func(ctx context.Context, r *rig, w write) (view, error)
}

// newest are the ways to ask for the newest data.
func (r *rig) newest() []call {
	calls := newest()
	if r.watchesState() {
		calls = append(calls, call{"WATCH", watching("", nil)}, call{"WATCH at 0", watching("0", nil)})
	}
	if r.watchLists() {
		calls = append(calls, call{"WATCH with initial events", watching("", new(true))})
	}
	return calls
}

// newest are those that every Store has.
func newest() []call {
	return []call{
		{"LIST", listing("", "", "", nil)},
		{"LIST at 0", listing("", "0", "", nil)},
		{"LIST at 0 not older than", listing("", "0", metav1.ResourceVersionMatchNotOlderThan, nil)},
		{"LIST in pages", inPages},
		{"LIST going on at -1", goingOn},
		{"LIST of a namespace", inNamespace("")},
		{"LIST of a namespace at 0", inNamespace("0")},
		{"LIST by label", byLabel},
		{"LIST by field", byField},
		{"LIST of one key", ofOneKey("")},
		{"LIST of one key at 0", ofOneKey("0")},
		{"GET", getting("")},
		{"GET at 0", getting("0")},
	}
}

// named finds one of newest.
func named(name string) call {
	for _, c := range newest() {
		if c.name == name {
			return c
		}
	}
	panic("decoratortest: no call " + name)
}

// listing lists under key, all where that is empty, with a predicate that change
// may alter.
func listing(key, resourceVersion string, match metav1.ResourceVersionMatch, change func(*storage.SelectionPredicate)) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, w write) (view, error) {
		opts := storage.ListOptions{ResourceVersion: resourceVersion, ResourceVersionMatch: match, Recursive: true, Predicate: storage.Everything}
		if change != nil {
			change(&opts.Predicate)
		}
		under := key
		if under == "" {
			under = r.prefix()
		}
		v, _, err := r.list(ctx, under, opts)
		return v, err
	}
}

// list also returns the token of the next page.
func (r *rig) list(ctx context.Context, key string, opts storage.ListOptions) (view, string, error) {
	list := r.NewList()
	if err := r.Store().GetList(ctx, key, opts, list); err != nil {
		return view{}, "", err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return view{}, "", err
	}
	v := view{revision: r.revisionOf(accessor.GetResourceVersion()), objects: map[string]uint64{}}
	if v.revision == 0 {
		return view{}, "", errors.New("the list has no resourceVersion")
	}
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		item, err := meta.Accessor(obj)
		if err == nil {
			v.objects[item.GetName()] = r.revisionOf(item.GetResourceVersion())
		}
		return err
	})
	return v, accessor.GetContinue(), err
}

func inPages(ctx context.Context, r *rig, w write) (view, error) {
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = 2
	all, token, err := r.list(ctx, r.prefix(), opts)
	for err == nil && token != "" {
		opts.Predicate.Continue = token
		var page view
		page, token, err = r.list(ctx, r.prefix(), opts)
		for name, revision := range page.objects {
			all.objects[name] = revision
		}
	}
	return all, err
}

// goingOn is what a client does whose token has expired: it goes on at the newest
// revision.
func goingOn(ctx context.Context, r *rig, w write) (view, error) {
	token, err := storage.EncodeContinue(w.key, r.prefix(), -1)
	if err != nil {
		return view{}, err
	}
	return listing("", "", "", func(p *storage.SelectionPredicate) { p.Continue = token })(ctx, r, w)
}

func inNamespace(resourceVersion string) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, w write) (view, error) {
		return listing(r.under(w.namespace), resourceVersion, "", nil)(ctx, r, w)
	}
}

func byLabel(ctx context.Context, r *rig, w write) (view, error) {
	return listing("", "", "", func(p *storage.SelectionPredicate) {
		p.Label, p.GetAttrs = labels.SelectorFromSet(labels.Set{nameLabel: w.name}), attributes
	})(ctx, r, w)
}

func byField(ctx context.Context, r *rig, w write) (view, error) {
	return listing("", "", "", func(p *storage.SelectionPredicate) {
		p.Field, p.GetAttrs = fields.OneTermEqualSelector("metadata.name", w.name), attributes
	})(ctx, r, w)
}

func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	return accessor.GetLabels(), fields.Set{"metadata.name": accessor.GetName(), "metadata.namespace": accessor.GetNamespace()}, nil
}

func ofOneKey(resourceVersion string) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, w write) (view, error) {
		v, _, err := r.list(ctx, w.key, storage.ListOptions{ResourceVersion: resourceVersion, Predicate: storage.Everything})
		return v, err
	}
}

func getting(resourceVersion string) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, w write) (view, error) {
		out := empty(r.NewObject(w.namespace, w.name))
		err := r.Store().Get(ctx, w.key, storage.GetOptions{ResourceVersion: resourceVersion}, out)
		switch {
		case storage.IsNotFound(err):
			return view{}, nil
		case err != nil:
			return view{}, err
		}
		return view{objects: map[string]uint64{w.name: r.objectRevision(out)}}, nil
	}
}
