package decorator

import (
	"reflect"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rvfloor/rvfloor/metrics"
)

// series are the metrics of one backend, or of one resource: they go with the last
// who uses them. Backends that were given the same registerer share them, and so do
// two storages of one resource: the new one of a custom resource that changed is
// there before the old one goes. So who uses them is counted for the whole process.
type series struct {
	key     seriesKey
	metrics *metrics.Metrics
	labels  prometheus.Labels

	mu   sync.Mutex
	gone bool
}

type seriesKey struct {
	shared                   *prometheus.CounterVec // stands for all of a registerer
	backend, group, resource string
}

var seriesUsers = struct {
	sync.Mutex
	count map[seriesKey]int
}{count: map[seriesKey]int{}}

func backendSeries(m *metrics.Metrics, name string) *series {
	return useSeries(m, seriesKey{backend: name}, prometheus.Labels{"backend": name})
}

func resourceSeries(m *metrics.Metrics, group, resource string) *series {
	return useSeries(m, seriesKey{group: group, resource: resource}, prometheus.Labels{"group": group, "resource": resource})
}

func useSeries(m *metrics.Metrics, key seriesKey, labels prometheus.Labels) *series {
	key.shared = m.Reads
	seriesUsers.Lock()
	defer seriesUsers.Unlock()
	seriesUsers.count[key]++
	return &series{key: key, metrics: m, labels: labels}
}

// while runs f, which may make a series, unless they are gone: a read that ends
// after its Store was closed must not bring one back.
func (s *series) while(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		f()
	}
}

// release deletes them if nobody else uses them. Idempotent.
func (s *series) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	seriesUsers.Lock()
	defer seriesUsers.Unlock()
	if seriesUsers.count[s.key]--; seriesUsers.count[s.key] > 0 {
		return
	}
	delete(seriesUsers.count, s.key)
	families := reflect.ValueOf(s.metrics).Elem() // all of them, also those that are yet to be added
	for i := range families.NumField() {
		if family, ok := families.Field(i).Interface().(interface {
			DeletePartialMatch(prometheus.Labels) int
		}); ok {
			family.DeletePartialMatch(s.labels)
		}
	}
}
