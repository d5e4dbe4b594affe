package decoratortest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// TestCounterPerResource: where each resource has a counter of revisions of its own, each
// wants a Backend of its own. One that reads the counter of another resource fails,
// whichever of the two is ahead.
func TestCounterPerResource(t *testing.T) {
	other := memstorage.NewBackend()
	t.Cleanup(other.Close)
	ofOther := freshness.SourceFunc(func(context.Context) (uint64, error) { return other.Revision(), nil })
	h := &inMemory{backend: memstorage.NewBackend()}
	t.Cleanup(h.backend.Close)
	h.writer = h.storage(t, false)
	const pods = 5
	for i := range pods {
		pod := h.NewObject("a", string(rune('a'+i)))
		if err := h.writer.Create(t.Context(), h.Key("a", string(rune('a'+i))), pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	list := func(store storage.Interface) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var got example.PodList
		err := store.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &got)
		if err == nil && len(got.Items) != pods {
			t.Errorf("%d pods, want %d", len(got.Items), pods)
		}
		return err
	}

	own, _ := compose(t, h.storage(t, true), freshness.SourceFunc(h.writer.GetCurrentResourceVersion), true)
	if err := list(own); err != nil {
		t.Error(err)
	}
	ahead, _ := compose(t, h.storage(t, true), ofOther, true)
	// What the cache was filled with has to be seen first: until then an answer is right.
	var err error
	for rewound := false; !rewound; {
		err = list(ahead)
		_, rewound = errors.AsType[*decorator.RewoundError](err)
		if !rewound && err != nil && !errors.Is(err, decorator.ErrNotReady) {
			t.Fatalf("ahead of the counter that is read: %v", err)
		}
	}
	for range 100 {
		other.Bump()
	}
	behind, _ := compose(t, h.storage(t, true), ofOther, true)
	if err := list(behind); !errors.Is(err, decorator.ErrNotFresh) {
		t.Errorf("behind the counter that is read: %v", err)
	}
	if err := list(own); err != nil {
		t.Error(err)
	}
}
