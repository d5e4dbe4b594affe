package decoratortest

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// nameLabel selects one object by its name, turnAnnotation is what updates change.
const (
	nameLabel      = "decoratortest-name"
	turnAnnotation = "decoratortest-turn"
)

// write is an object and the newest acknowledged write, which an answer must show.
type write struct {
	namespace, name, key string

	revision  uint64 // of the write
	deleted   bool   // the object was
	elsewhere bool   // the object was not touched
	marker    string // an object that is created when all is over; "": none will be
}

// missing says what an answer lacks of the write, or nothing.
func (w write) missing(v view) string {
	have, there := v.objects[w.name]
	switch {
	case v.revision != 0 && v.revision < w.revision:
		return fmt.Sprintf("an answer at resourceVersion %d", v.revision)
	case w.elsewhere:
		return ""
	case w.deleted && there:
		return fmt.Sprintf("an answer with %s at %d, which was deleted at %d", w.name, have, w.revision)
	case !w.deleted && !there:
		return fmt.Sprintf("an answer without %s, which was written at %d", w.name, w.revision)
	case !w.deleted && have < w.revision:
		return fmt.Sprintf("an answer with %s at %d, which was written at %d", w.name, have, w.revision)
	}
	return ""
}

// create makes an object through Writer.
func (r *rig) create(namespace, name string) write {
	r.t.Helper()
	w := write{namespace: namespace, name: name, key: r.Key(namespace, name)}
	obj := r.object(namespace, name)
	out := empty(obj)
	if err := r.Writer().Create(r.t.Context(), w.key, obj, out, 0); err != nil {
		r.t.Fatalf("Writer().Create(%q): %v", w.key, err)
	}
	w.revision = r.objectRevision(out)
	return w
}

// object is one that the selectors of the checks can find.
func (r *rig) object(namespace, name string) runtime.Object {
	r.t.Helper()
	obj := r.NewObject(namespace, name)
	accessor := r.accessor(obj)
	labels := accessor.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[nameLabel] = name
	accessor.SetLabels(labels)
	return obj
}

// update writes the object of w anew through s.
func (r *rig) update(s storage.Interface, w write) (write, error) {
	out := empty(r.NewObject(w.namespace, w.name))
	err := s.GuaranteedUpdate(r.t.Context(), w.key, out, false, nil,
		func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			accessor, err := meta.Accessor(obj)
			if err != nil {
				return nil, nil, err
			}
			annotations := accessor.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[turnAnnotation] += "."
			if len(annotations[turnAnnotation]) > 100 {
				annotations[turnAnnotation] = ""
			}
			accessor.SetAnnotations(annotations)
			return obj, nil, nil
		}, nil)
	if err == nil {
		w.revision = r.objectRevision(out)
	}
	return w, err
}

// remove deletes the object of w through s.
func (r *rig) remove(s storage.Interface, w write) (write, error) {
	out := empty(r.NewObject(w.namespace, w.name))
	err := s.Delete(r.t.Context(), w.key, out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err == nil {
		w.deleted, w.revision = true, max(w.revision, r.objectRevision(out))
	}
	return w, err
}

func (r *rig) accessor(obj runtime.Object) metav1.Object {
	r.t.Helper()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		r.t.Fatalf("%T has no metadata: %v", obj, err)
	}
	return accessor
}

// objectRevision is for any goroutine: what has no revision is at 0, which shows.
func (r *rig) objectRevision(obj runtime.Object) uint64 {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	return r.revisionOf(accessor.GetResourceVersion())
}

// empty is an object of the type of obj to read into.
func empty(obj runtime.Object) runtime.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
}

// prefix is that of all keys, with a slash.
func (r *rig) prefix() string { return strings.TrimSuffix(r.Key("", ""), "/") + "/" }

// under is the prefix of the keys of a namespace; of all where there are none.
func (r *rig) under(namespace string) string { return strings.TrimSuffix(r.Key(namespace, "x"), "x") }
