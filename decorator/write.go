package decorator

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// writtenNamespace and writtenName are reserved for the object that StrategyWrite writes.
	// Other API servers must be able to have it in their caches, so they are valid, and the
	// namespace is there also where the resource has none.
	writtenNamespace = "rvfloor"
	writtenName      = "rvfloor-written"
	// writtenMark is the annotation that only this object has. Its value is another in each
	// write: what has not changed is not written.
	writtenMark = "rvfloor.io/written"
	// writtenTTL, in seconds, is how long the object outlives the last write.
	writtenTTL = 600
	// writeEach is how often at most it is written again for the same reads: its event
	// takes as long as the watch does.
	writeEach = time.Second
)

// write is StrategyWrite: when the cache's watch brings what was written, it has brought all
// that came before.
type write struct {
	feed *Feed

	revision uint64 // of the newest
	at       time.Time
}

// Advance is strategy's.
func (w *write) Advance(ctx context.Context, target uint64) error {
	f := w.feed
	if target <= w.revision && time.Since(w.at) < writeEach {
		return nil // its event is on its way
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.backend.cfg.MaxWait, errMaxWait)
	defer cancel()
	out := f.newItem()
	err := f.raw.GuaranteedUpdate(ctx, trimSlash(f.resource.Prefix)+"/"+writtenNamespace+"/"+writtenName, out, true, nil,
		func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return f.written(), new(uint64(writtenTTL)), nil
		}, nil)
	f.observe.wrote(err)
	if err != nil {
		return err
	}
	w.revision, err = f.raw.Versioner().ObjectResourceVersion(out)
	w.at = time.Now()
	return err
}

// written is the object, each time another.
func (f *Feed) written() runtime.Object {
	o := f.newItem()
	o.SetNamespace(writtenNamespace)
	o.SetName(writtenName)
	o.SetAnnotations(map[string]string{writtenMark: strconv.FormatUint(rand.Uint64(), 36)})
	list := f.resource.NewList().GetObjectKind().GroupVersionKind()
	if kind, ok := strings.CutSuffix(list.Kind, "List"); ok { // as of a custom resource, which is not known by its type
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: list.Group, Version: list.Version, Kind: kind})
	}
	return o
}

// hides says whether an object is one that nobody is to see. A name is not enough: under
// another key anybody may have an object of that name.
func (b *Backend) hides(object metav1.Object) bool {
	return b.cfg.Strategy == StrategyWrite && object.GetName() == writtenName && object.GetNamespace() == writtenNamespace &&
		object.GetAnnotations()[writtenMark] != ""
}

// hide takes what nobody is to see out of a list.
func (b *Backend) hide(list runtime.Object) error {
	if b.cfg.Strategy != StrategyWrite {
		return nil
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	shown := items[:0:0]
	for _, item := range items {
		if object, err := meta.Accessor(item); err != nil || !b.hides(object) {
			shown = append(shown, item)
		}
	}
	if len(shown) == len(items) {
		return nil
	}
	return meta.SetList(list, shown)
}
