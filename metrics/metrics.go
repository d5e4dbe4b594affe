// Package metrics holds the Prometheus collectors of rvfloor. They belong to an
// instance and to the registerer that it was given; nothing is global, but for the
// count of panics.
package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// Outcomes are the values of the label outcome: of reads those of ReadOutcomes, of floor
// reads, kicks, nudges and direct lists those that can happen to them.
const (
	OK       = "ok"
	Canceled = "canceled" // the caller went away: no failure
	NotFresh = "not_fresh"
	NoFloor  = "no_floor"
	NotReady = "not_ready"
	TooLarge = "too_large"
	Rewound  = "rewound"
	Busy     = "busy"
	Stale    = "stale"    // answered unverified, by policy
	Refused  = "refused"  // the backend was seen to be unfit
	Error    = "error"    // of the inner storage, or of the backend
	Proved   = "proved"   // of kicks: by a range of the backend
	Unproved = "unproved" // of kicks: the range did not prove it
	Wrote    = "wrote"    // of kicks: an object, by StrategyWrite
	Bad      = "bad"      // the backend answered what is no revision
)

// ReadOutcomes are what a read can come to.
var ReadOutcomes = [...]string{OK, Canceled, NotFresh, NoFloor, NotReady, TooLarge, Rewound, Busy, Stale, Refused, Error}

// Metrics are the collectors. The zero value is not usable; New with a nil
// registerer gives collectors that nobody collects.
type Metrics struct {
	FloorReads        *prometheus.CounterVec   // backend, outcome
	FloorReadDuration *prometheus.HistogramVec // backend
	FloorReadCallers  *prometheus.HistogramVec // backend
	Kicks             *prometheus.CounterVec   // group, resource, outcome
	Nudges            *prometheus.CounterVec   // backend, outcome
	Waiters           *prometheus.GaugeVec     // group, resource
	Reads             *prometheus.CounterVec   // group, resource, verb, route, outcome
	WaitDuration      *prometheus.HistogramVec // group, resource, verb
	Lag               *prometheus.GaugeVec     // group, resource
	LastFresh         *prometheus.GaugeVec     // group, resource
	DirectLists       *prometheus.CounterVec   // group, resource, outcome
	StreamReopens     *prometheus.CounterVec   // group, resource, reason
	BookmarksDropped  *prometheus.CounterVec   // group, resource
	Rewinds           *prometheus.CounterVec   // backend, evidence
	Breaches          *prometheus.CounterVec   // group, resource
	BackendProperty   *prometheus.GaugeVec     // backend, property, verdict
	Panics            prometheus.CounterFunc   // of the process
}

// waitBuckets, in seconds, span a fast progress round trip and the default longest
// wait; the alerts in docs/monitoring need a bound at 1.
var waitBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// New registers the collectors with registerer, which may be nil. Collectors that
// another Metrics registered there before are shared with it.
func New(registerer prometheus.Registerer) (*Metrics, error) {
	r := registrar{registerer: registerer}
	m := &Metrics{
		FloorReads:        r.counter("floor_reads_total", "Linearizable revision reads sent to the backend.", "backend", "outcome"),
		FloorReadDuration: r.histogram("floor_read_duration_seconds", "Duration of revision reads.", waitBuckets, "backend"),
		FloorReadCallers:  r.histogram("floor_read_callers", "Callers that shared one revision read.", prometheus.ExponentialBuckets(1, 4, 8), "backend"),
		Kicks:             r.counter("kicks_total", "Progress requests sent on the watch of a cache.", "group", "resource", "outcome"),
		Nudges:            r.counter("nudges_total", "Writes of the sentinel key, for a backend whose progress stands still.", "backend", "outcome"),
		Waiters:           r.gauge("waiters", "Reads that wait for a cache to become fresh.", "group", "resource"),
		Reads:             r.counter("reads_total", "Reads by what was done before they could be answered.", "group", "resource", "verb", "route", "outcome"),
		WaitDuration:      r.histogram("wait_duration_seconds", "Time from the arrival of a read, or of a watcher, until the cache was known to be fresh; reads that failed are not in it.", waitBuckets, "group", "resource", "verb"),
		Lag:               r.gauge("lag_revisions", "Revisions that the cache was behind the newest floor that was read for it, when it was last looked at.", "group", "resource"),
		LastFresh:         r.gauge("last_fresh_timestamp_seconds", "Unix time at which a read last found the cache fresh; it stands still while nobody reads.", "group", "resource"),
		DirectLists:       r.counter("direct_lists_total", "Quorum lists of the raw storage for reads that could not be verified.", "group", "resource", "outcome"),
		StreamReopens:     r.counter("stream_reopens_total", "Watches of a cache that were opened anew.", "group", "resource", "reason"),
		BookmarksDropped:  r.counter("bookmarks_dropped_total", "Bookmarks below what the cache already had.", "group", "resource"),
		Rewinds:           r.counter("rewinds_total", "Times the backend's history was found to have gone back.", "backend", "evidence"),
		Breaches:          r.counter("breaches_total", "Answers or watches found to break the promise. Alert on any.", "group", "resource"),
		BackendProperty:   r.gauge("backend_property", "What was observed of a backend, or decided for it: 1 for the verdict that holds.", "backend", "property", "verdict"),
		Panics: register(&r, "panics_total", prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "rvfloor", Name: "panics_total",
			Help: "Panics of a source, a storage or an object that became errors, in the whole process. Its log has their stacks."},
			func() float64 { return float64(guard.Count()) })),
	}
	return m, r.err
}

// registrar registers collectors, or finds those that are there already.
type registrar struct {
	registerer prometheus.Registerer
	err        error
}

func (r *registrar) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return register(r, name, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rvfloor", Name: name, Help: help}, labels))
}

func (r *registrar) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(r, name, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rvfloor", Name: name, Help: help}, labels))
}

func (r *registrar) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(r, name, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rvfloor", Name: name, Help: help, Buckets: buckets}, labels))
}

func register[C prometheus.Collector](r *registrar, name string, collector C) C {
	if r.registerer == nil || r.err != nil {
		return collector
	}
	err := r.registerer.Register(collector)
	if err == nil {
		return collector
	}
	if there, ok := err.(prometheus.AlreadyRegisteredError); ok {
		if same, ok := there.ExistingCollector.(C); ok {
			return same
		}
	}
	r.err = fmt.Errorf("metrics: Registerer refuses rvfloor_%s; give it a registerer on which nothing else takes this name: %w", name, err)
	return collector
}
