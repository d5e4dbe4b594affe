package decorator

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// repeats are the events of one revision that the cache took from an earlier watch. A watch
// that is opened below that revision brings them again, among those that the cache lacks.
//
// An event that is wrongly taken for a repeat is lost to the cache for ever; one that comes
// twice does little harm. So nothing is a repeat on a first delivery, each event is one only
// once, and they are told apart by what the cache tells its objects apart by, its key. Where
// that is not known, they are told apart by all that is in them, as a key is made of nothing
// else. Two objects of one namespace and name are no rarity: a cache of many tenants may
// have one of each.
type repeats struct {
	resource *Resource
	byName   map[string][]watch.Event
}

func newRepeats(r *Resource, took []watch.Event) repeats {
	all := repeats{resource: r}
	for _, event := range took {
		if all.byName == nil {
			all.byName = map[string][]watch.Event{}
		}
		object, err := meta.Accessor(event.Object)
		if err != nil {
			continue
		}
		name := nameOf(object)
		all.byName[name] = append(all.byName[name], event)
	}
	return all
}

// strike reports whether an event is one of them, and removes it.
func (r *repeats) strike(event watch.Event, object metav1.Object) bool {
	if len(r.byName) == 0 {
		return false
	}
	name := nameOf(object)
	i := slices.IndexFunc(r.byName[name], func(taken watch.Event) bool { return r.same(taken, event) })
	if i < 0 {
		return false
	}
	r.byName[name] = slices.Delete(r.byName[name], i, i+1)
	return true
}

// same reports whether two events of one revision are of the same object. No backend changes
// an object twice at one revision.
func (r *repeats) same(a, b watch.Event) bool {
	key, known := r.resource.key(a.Object)
	other, otherKnown := r.resource.key(b.Object)
	if known && otherKnown {
		return key == other
	}
	return a.Type == b.Type && reflect.DeepEqual(unwrapped(a.Object), unwrapped(b.Object))
}

// key returns what the cache tells an object apart by; false: it is not known.
func (r *Resource) key(object runtime.Object) (key string, known bool) {
	if r.KeyFunc == nil {
		return "", false
	}
	err := guard.Call(func() (err error) {
		key, err = r.KeyFunc(unwrapped(object))
		return err
	})
	return key, err == nil
}

// identity returns what an object has for life: its key in the cache, or, where that is not
// known, its name and UID, which several objects may share.
func (r *Resource) identity(object runtime.Object, named metav1.Object) string {
	if key, known := r.key(object); known {
		return key
	}
	return nameOf(named) + "/" + string(named.GetUID())
}

// unwrapped returns the object that a storage wraps to say when it was read.
func unwrapped(object runtime.Object) runtime.Object {
	if timed, ok := object.(storage.WatchEventWithRecordTime); ok {
		return timed.Unwrap()
	}
	return object
}

func nameOf(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }
