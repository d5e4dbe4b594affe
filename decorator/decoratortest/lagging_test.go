package decoratortest_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator/decoratortest"
)

// lagging is a Harness of a Store that lists from the backend, as one does whose strategy
// has moved, while its cache is behind until it is asked for anything that exists.
type lagging struct {
	decoratortest.Harness
	together decoratortest.Transactor

	mu   sync.Mutex
	held bool // by the check, and not because the cache is behind
}

func newLagging(t *testing.T) decoratortest.Harness {
	h := newInMemory(t, true, true)
	h.HoldWatch()
	return &lagging{Harness: h, together: h}
}

func (l *lagging) Store() storage.Interface { return laggingStore{l.Harness.Store(), l} }

func (l *lagging) HoldWatch() { l.hold(true, l.Harness.HoldWatch) }

func (l *lagging) ReleaseWatch() { l.hold(false, l.Harness.ReleaseWatch) }

func (l *lagging) hold(held bool, act func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	act()
}

func (l *lagging) DeleteTogether(ctx context.Context, keys ...string) error {
	return l.together.DeleteTogether(ctx, keys...)
}

// asked lets the cache catch up, unless the revision is one that does not exist.
func (l *lagging) asked(resourceVersion string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if revision, err := strconv.ParseUint(resourceVersion, 10, 64); (err != nil || revision < 1<<40) && !l.held {
		l.Harness.ReleaseWatch()
	}
}

type laggingStore struct {
	storage.Interface
	lagging *lagging
}

func (s laggingStore) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if opts.ResourceVersion == "" { // and their further pages
		return s.lagging.Writer().GetList(ctx, key, opts, list)
	}
	s.lagging.asked(opts.ResourceVersion)
	return s.Interface.GetList(ctx, key, opts, list)
}

func (s laggingStore) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	s.lagging.asked(opts.ResourceVersion)
	return s.Interface.Get(ctx, key, opts, out)
}

func (s laggingStore) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s.lagging.asked(opts.ResourceVersion)
	return s.Interface.Watch(ctx, key, opts)
}
