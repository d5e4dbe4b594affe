package decoratortest_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator/decoratortest"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// inMemory is a harness over a storage in memory that is no etcd.
type inMemory struct {
	podHarness
	holders
	backend *memstorage.Backend
}

func newInMemory(t *testing.T, tapped, withFeed bool) *inMemory {
	t.Helper()
	h := &inMemory{backend: memstorage.NewBackend()}
	raw := h.storage(t, tapped)
	t.Cleanup(h.backend.Close)
	h.writer = h.storage(t, false)
	h.store, h.holders = compose(t, raw, freshness.SourceFunc(h.writer.GetCurrentResourceVersion), withFeed)
	return h
}

func (h *inMemory) storage(t *testing.T, tapped bool) storage.Interface {
	t.Helper()
	s, err := memstorage.New(h.backend, memstorage.Config{Prefix: prefix, New: newPod, Tapped: tapped})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newRawStorage is what an embedder brings.
func newRawStorage(t *testing.T) storage.Interface {
	t.Helper()
	h := &inMemory{backend: memstorage.NewBackend()}
	t.Cleanup(h.backend.Close)
	return h.storage(t, false)
}

func (h *inMemory) DeleteTogether(_ context.Context, keys ...string) error {
	var changes []memstorage.Change
	for _, key := range keys {
		changes = append(changes, memstorage.Delete(key))
	}
	_, err := h.backend.Txn(changes...)
	return err
}

func (h *inMemory) WriteElsewhere(context.Context) (uint64, error) { return h.backend.Bump(), nil }

// feedless is without a Feed: whole revisions are not promised.
type feedless struct{ *inMemory }

func (feedless) WhyPartial() string { return "its cache has no Feed" }

func TestInMemory(t *testing.T) {
	for name, newHarness := range map[string]func(t *testing.T) decoratortest.Harness{
		"Feed":         func(t *testing.T) decoratortest.Harness { return newInMemory(t, true, true) },
		"FeedUntapped": func(t *testing.T) decoratortest.Harness { return newInMemory(t, false, true) },
		"Feedless":     func(t *testing.T) decoratortest.Harness { return feedless{newInMemory(t, false, false)} },
		"Lagging":      newLagging,
		"Example":      newExampleHarness,
	} {
		t.Run(name, func(t *testing.T) { decoratortest.Run(t, newHarness) })
	}
}
