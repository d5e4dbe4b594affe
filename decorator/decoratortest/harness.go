package decoratortest

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Harness is one decorated storage with its backend, which nobody else writes to.
// Whoever makes it takes it down with t.Cleanup.
type Harness interface {
	// Store is the decorated storage under test, over a cache that is filled or
	// about to be.
	Store() storage.Interface
	// Writer is the same data past the cache: what it acknowledged is in the
	// backend, and its Get is linearizable.
	Writer() storage.Interface
	// HoldWatch holds back what the watch of the cache delivers, bookmarks and
	// progress too, until ReleaseWatch, after which all of it comes in order.
	// Nothing is delivered once HoldWatch has returned. HoldableWatch does it for
	// any storage.
	HoldWatch()
	// ReleaseWatch takes HoldWatch back. It may be called when nothing is held.
	ReleaseWatch()
	// NewObject returns an object that may be created. Of a resource without
	// namespaces the name alone counts: Run uses no name in two namespaces.
	NewObject(namespace, name string) runtime.Object
	// NewList returns an empty list of such objects.
	NewList() runtime.Object
	// Key is the storage key of an object; Key("", "") is the prefix of all.
	Key(namespace, name string) string
}

// Transactor is a Harness that can change several objects at one revision. Without
// it Run lets objects with a time to live end together, which etcd does at one
// revision, takes 20 s, and is left out under -short.
type Transactor interface {
	// DeleteTogether deletes the objects at keys at one revision, past the cache. It
	// returns when the backend has acknowledged that.
	DeleteTogether(ctx context.Context, keys ...string) error
}

// PartialRevisions is a Harness whose Store does not promise whole revisions: its
// cache has no Feed. Run then does not look for them.
type PartialRevisions interface {
	// WhyPartial says why, for whoever reads that the test was skipped.
	WhyPartial() string
}

// NoInitialEvents is a Harness whose Store refuses watches with initial events, as
// upstream's cache does over an etcd that it takes to be too old to be asked for progress:
// clients list instead. Run then makes none.
type NoInitialEvents interface {
	// WhyNoInitialEvents says why, for whoever reads that they were left out.
	WhyNoInitialEvents() string
}

// NoStateWatches is a Harness whose Store refuses every watch that begins with the state, as
// under decorator.StrategyDirect: clients list, and watch from there. Run then makes none.
type NoStateWatches interface {
	// WhyNoStateWatches says why, for whoever reads that they were left out.
	WhyNoStateWatches() string
}

// ReadHolder is a Harness that can hold back the answers of its backend's revision
// reads. HoldableSource does it for any Source.
type ReadHolder interface {
	// HoldReads holds back the answers of revision reads that the backend answers
	// from now on. The channel is closed when there is one.
	HoldReads() (held <-chan struct{})
	// ReleaseReads takes HoldReads back. It may be called when nothing is held.
	ReleaseReads()
}

// ListReplayer is a Harness whose cache can be made to answer from an older state.
// ReplayCache does it for any cache.
type ListReplayer interface {
	// ReplayList makes the cache answer the next list of the whole resource with
	// what it answered the last one.
	ReplayList()
}

// OtherWriter is a Harness that can write to its backend outside of the resource of
// its Store. Without it Run writes another object of the resource.
type OtherWriter interface {
	// WriteElsewhere returns the revision of a write that changes no object of the
	// Store's resource, once the backend has acknowledged it.
	WriteElsewhere(ctx context.Context) (revision uint64, err error)
}
