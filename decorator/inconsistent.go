package decorator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

// difference is how a cache was found to differ from the backend.
type difference struct {
	// signature is equal for two caches that differ in the same objects, whatever their
	// revisions are; empty: it is not known in which.
	signature string
	example   string
}

// Error returns why reads go past the cache.
func (d *difference) Error() string {
	if d.example == "" {
		return errInconsistent.Error()
	}
	return errInconsistent.Error() + ": " + d.example
}

// Is reports a match for errDirect, so that such reads are answered as under StrategyDirect.
func (*difference) Is(target error) bool { return target == errDirect }

// same reports whether nothing shows that two caches differ in other objects.
func (d *difference) same(other *difference) bool {
	return other != nil && (d.signature == "" || other.signature == "" || d.signature == other.signature)
}

// comparePage is how many objects are read at once, as many as upstream's checker reads.
const comparePage = 10000

// foundInconsistent is called when a check found that the cache differs from the backend.
// From now on reads go past it. A Healing builds another, unless this one took the place of
// one that differed in the same way: as where an object is stored under another one's key, so
// that no cache can be right (kubernetes#135115). Then this one stays. LISTs and Gets go to
// the storage, which has the right answer, and a watch from a revision to the cache, as in
// stock: nobody could make it better.
func (s *Store) foundInconsistent(compare func() (*difference, error)) {
	if s.backend.Mode() == ModeOff {
		return
	}
	s.wrong.CompareAndSwap(nil, &difference{})
	now, err := compare()
	if err != nil {
		klog.ErrorS(err, "It could not be found out in what a cache differs from its backend", "resource", s.resource.GroupResource)
		now = &difference{}
	}
	s.wrong.Store(now)
	if !now.same(s.before.Load()) {
		s.Distrust()
		return
	}
	if !s.stays.Swap(true) {
		s.observe.breach(errInconsistent.Error()+", and so did the one before: it is not built anew again, and its reads go to the storage", "difference", now.example)
	}
}

// foundConsistent has reads use the cache again after a check that found no difference.
func (s *Store) foundConsistent() {
	s.before.Store(nil)
	s.stays.Store(false)
	if s.wrong.Swap(nil) != nil {
		klog.InfoS("A cache is consistent with its backend again", "resource", s.resource.GroupResource)
	}
}

// unfit reports whether what the cache has is not to be relied on at any revision: it was found
// to be wrong, or wired wrong.
func (s *Store) unfit() bool { return s.wrong.Load() != nil || s.wiring.present.Load() != nil }

// differs returns how the cache was found to differ from the backend, or nil.
func (s *Store) differs() error {
	if wrong := s.wrong.Load(); wrong != nil {
		return wrong
	}
	return nil
}

// compare finds out in which objects the cache and the storage differ at one revision.
func (c *Checked) compare(ctx context.Context) (*difference, error) {
	raw := c.store.resource.Raw
	if raw == nil {
		return nil, errors.New("decorator: Resource.Raw is nil")
	}
	cached, stored := c.store.resource.NewList(), []version{}
	opts := storage.ListOptions{ResourceVersion: "0", ResourceVersionMatch: notOlderThan, Recursive: true, Predicate: storage.Everything}
	if err := c.list(ctx, c.store.resource.Prefix, opts, cached); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(cached)
	if err != nil {
		return nil, err
	}
	opts.ResourceVersion, opts.ResourceVersionMatch = accessor.GetResourceVersion(), metav1.ResourceVersionMatchExact
	opts.Predicate.Limit = comparePage
	for {
		page := c.store.resource.NewList()
		if err := raw.GetList(ctx, c.store.resource.Prefix, opts, page); err != nil {
			return nil, err
		}
		if stored, err = appendVersions(stored, page); err != nil {
			return nil, err
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		if accessor.GetContinue() == "" {
			break
		}
		opts.Predicate.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = accessor.GetContinue(), "", ""
	}
	had, err := appendVersions(nil, cached)
	if err != nil {
		return nil, err
	}
	return differenceOf(had, stored), nil
}

// version names an object at one revision.
type version struct{ name, revision string }

func appendVersions(all []version, list runtime.Object) ([]version, error) {
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			all = append(all, version{strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"), object.GetResourceVersion()})
		}
		return err
	})
	return all, err
}

// differenceOf compares what a cache and the storage have. Two objects of one name in the
// storage are no fault of this comparison: it is what a cache cannot have.
func differenceOf(cached, stored []version) *difference {
	surplus, known := map[version]int{}, map[string]bool{}
	for _, v := range stored {
		surplus[v]++
	}
	for _, v := range cached {
		surplus[v]--
		known[v.name] = true
	}
	var lacks, only []string
	for v, n := range surplus {
		switch {
		case n > 0 && known[v.name]:
			lacks = append(lacks, v.name+" (and has another)")
		case n > 0:
			lacks = append(lacks, v.name)
		case n < 0:
			only = append(only, v.name)
		}
	}
	slices.Sort(lacks)
	slices.Sort(only)
	switch {
	case len(lacks) > 0:
		return &difference{fmt.Sprintf("%q %q", lacks, only), fmt.Sprintf("it lacks %s; %d of its objects are not in the storage", some(lacks), len(only))}
	case len(only) > 0:
		return &difference{fmt.Sprintf("%q %q", lacks, only), fmt.Sprintf("it has %s, which the storage has not", some(only))}
	}
	for i := range stored {
		if stored[i] != cached[i] {
			return &difference{"order", fmt.Sprintf("%s has another place there, as it is stored under a key that is not its own", stored[i].name)}
		}
	}
	return &difference{}
}

// some are the first three names and how many there are more.
func some(names []string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}
