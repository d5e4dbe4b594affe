package metrics

// A rate does not see the step from no series to a series at 1. So the series whose
// labels are few and known are there from the start, at 0; those of Reads, with their
// 150 combinations, are not.

// ZeroBackend makes the counters of a backend whose rewinds have these evidences.
func (m *Metrics) ZeroBackend(backend string, evidences ...string) {
	for _, outcome := range []string{OK, Canceled, Rewound, Bad, Error} {
		m.FloorReads.WithLabelValues(backend, outcome)
	}
	for _, outcome := range []string{OK, Error} {
		m.Nudges.WithLabelValues(backend, outcome)
	}
	for _, evidence := range evidences {
		m.Rewinds.WithLabelValues(backend, evidence)
	}
}

// ZeroResource makes the counters of a resource.
func (m *Metrics) ZeroResource(group, resource string) {
	for _, outcome := range []string{OK, Error} {
		m.Kicks.WithLabelValues(group, resource, outcome)
	}
	for _, outcome := range []string{OK, Busy, Error} {
		m.DirectLists.WithLabelValues(group, resource, outcome)
	}
	for _, reason := range []string{"overtaken", "reconnected", "rewound", "inconsistent"} {
		m.StreamReopens.WithLabelValues(group, resource, reason)
	}
	m.BookmarksDropped.WithLabelValues(group, resource)
	m.Breaches.WithLabelValues(group, resource)
}
