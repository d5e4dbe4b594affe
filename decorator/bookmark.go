package decorator

import (
	"fmt"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// itemMaker returns a function that makes empty objects of the kind that newList's
// lists hold, which is what a bookmark carries.
func itemMaker(newList func() runtime.Object) (func() object, error) {
	list := newList()
	items, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, fmt.Errorf("decorator: Resource.NewList returns %T, which is no list: %w", list, err)
	}
	item := reflect.TypeOf(items).Elem().Elem()
	if item.Kind() == reflect.Pointer {
		item = item.Elem()
	}
	if _, ok := reflect.New(item).Interface().(object); !ok {
		// A list of an interface: a bookmark needs nothing but its metadata.
		item = reflect.TypeFor[metav1.PartialObjectMetadata]()
	}
	return func() object { return reflect.New(item).Interface().(object) }, nil
}

// object is what a cache's items are.
type object interface {
	runtime.Object
	metav1.Object
}

func newBookmark(newItem func() object, revision uint64) watch.Event {
	item := newItem()
	item.SetResourceVersion(strconv.FormatUint(revision, 10))
	return watch.Event{Type: watch.Bookmark, Object: item}
}

// endsInitialEvents says whether a bookmark marks the end of a first fill.
func endsInitialEvents(object metav1.Object) bool {
	return object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
