package watchcache_test

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/watchcache"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// cacherTimers is longer than any timer of upstream's Cacher that outlives it.
const cacherTimers = 4 * time.Second

// memory is a storage of pods over a backend.
func memory(t *testing.T, over *memstorage.Backend) *memstorage.Storage {
	t.Helper()
	s, err := memstorage.New(over, memstorage.Config{Prefix: prefix, New: newPod, Tapped: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newBackend is one over a storage in memory.
func newBackend(t *testing.T, over storage.Interface) *decorator.Backend {
	t.Helper()
	b, err := decorator.NewBackend(decorator.Config{Source: freshness.SourceFunc(over.GetCurrentResourceVersion), Pulse: -1})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, over *memstorage.Backend, name, value string) {
	t.Helper()
	p := &example.Pod{}
	p.Namespace, p.Name, p.Labels = "ns", name, map[string]string{"value": value}
	if _, err := over.Txn(memstorage.Put(prefix+"ns/"+name, p)); err != nil {
		t.Fatal(err)
	}
}

// TestHeal: what Heal returns is fresh, and goes on after a restore.
func TestHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := memstorage.NewBackend()
		writer := memory(t, data)
		put(t, data, "a", "kept")
		backend := newBackend(t, writer)
		raws, ended := 0, 0
		store, err := watchcache.Heal(backend, func() (storage.Interface, func(), error) {
			raws++
			return memory(t, data), func() { ended++ }, nil
		}, cacherConfig(), watchcache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		put(t, data, "b", "lost")
		if got, err := values(t, store, "0"); err != nil || !maps.Equal(got, map[string]string{"a": "kept", "b": "lost"}) {
			t.Errorf("%v, %v", got, err)
		}
		if err := data.Restore(2); err != nil {
			t.Fatal(err)
		}
		_, _ = values(t, store, "") // which finds it out
		time.Sleep(10 * time.Second)
		if got, err := values(t, store, ""); err != nil || !maps.Equal(got, map[string]string{"a": "kept"}) {
			t.Errorf("after the restore: %v, %v", got, err)
		}
		store.Close()
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		data.Close()
		if raws != 2 || ended != 2 {
			t.Errorf("%d raw storages were made and %d ended", raws, ended)
		}
		time.Sleep(cacherTimers)
	})
}

// TestRefused: what is missing is named before anything is built.
func TestRefused(t *testing.T) {
	data := memstorage.NewBackend()
	defer data.Close()
	raw := memory(t, data)
	backend := newBackend(t, raw)
	defer backend.Close()
	for name, change := range map[string]func(*cacher.Config){
		"NewFunc":        func(c *cacher.Config) { c.NewFunc = nil },
		"NewListFunc":    func(c *cacher.Config) { c.NewListFunc = nil },
		"KeyFunc":        func(c *cacher.Config) { c.KeyFunc = nil },
		"GetAttrsFunc":   func(c *cacher.Config) { c.GetAttrsFunc = nil },
		"Codec":          func(c *cacher.Config) { c.Codec = nil },
		"Versioner":      func(c *cacher.Config) { c.Versioner = nil },
		"Storage":        func(c *cacher.Config) { c.Storage = raw },
		"ResourcePrefix": func(c *cacher.Config) { c.ResourcePrefix = "" },
	} {
		cfg := cacherConfig()
		change(&cfg)
		store, stop, err := watchcache.Build(backend, raw, cfg, watchcache.Options{})
		if err == nil || store != nil || stop != nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "pods") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := watchcache.Build(backend, nil, cacherConfig(), watchcache.Options{}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("no raw storage: %v", err)
	}
	if _, err := watchcache.Heal(backend, nil, cacherConfig(), watchcache.Options{}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("no function for it: %v", err)
	}
}
