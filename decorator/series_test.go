package decorator

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestSeriesGoWithTheLastUser: of two storages of one resource, over Backends that
// share a registerer, the last takes the series along, and a backend's go with it.
func TestSeriesGoWithTheLastUser(t *testing.T) {
	used := len(seriesUsers.count)
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		registry := prometheus.NewRegistry()
		var stores []*Store
		for _, name := range []string{"one", "two"} {
			b, err := NewBackend(Config{Name: name, Source: r.backend.cfg.Source, Registerer: registry})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			s, err := b.Wrap(r.inner, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := list(t.Context(), s, everything("")); err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
		}
		left := func(name, value string) int { return labelled(t, registry, name, value) }
		stores[0].Close()
		stores[0].Close() // once is enough
		if left("resource", "pods") == 0 || left("backend", "one") == 0 {
			t.Error("series went before who uses them")
		}
		if err := stores[0].backend.Close(); err != nil {
			t.Fatal(err)
		}
		if left("backend", "one") != 0 || left("backend", "two") == 0 {
			t.Errorf("%d series of a closed backend are left, %d of the open one", left("backend", "one"), left("backend", "two"))
		}
		if _, err := list(t.Context(), stores[1], everything("")); err != nil {
			t.Fatal(err)
		}
		if n := count(t, stores[1].backend.metrics.Reads.WithLabelValues("", "pods", "list", "floor", "ok")); n != 3 {
			t.Errorf("%v reads are counted while one of the storages is left, want those of both", n)
		}
		stores[1].Close()
		_, _ = list(t.Context(), stores[1], everything("")) // ends after its Store
		if n := left("resource", "pods"); n != 0 {
			t.Errorf("%d series are left of a resource that is gone", n)
		}
	})
	if n := len(seriesUsers.count); n != used {
		t.Errorf("%d are in use, want the %d of before", n, used)
	}
}

// labelled is how many series have a label of this value.
func labelled(t *testing.T, from prometheus.Gatherer, name, value string) (n int) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, series := range family.Metric {
			for _, pair := range series.Label {
				if pair.GetName() == name && pair.GetValue() == value {
					n++
				}
			}
		}
	}
	return n
}
