package decorator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/guard"
	"github.com/rvfloor/rvfloor/metrics"
)

type verb uint8

const (
	verbGet verb = iota
	verbList
	verbWatch
	verbs
)

func (v verb) String() string { return [...]string{"get", "list", "watch"}[v] }

// outcome is an index of metrics.ReadOutcomes.
type outcome uint8

const (
	outcomeOK outcome = iota
	outcomeCanceled
	outcomeNotFresh
	outcomeNoFloor
	outcomeNotReady
	outcomeTooLarge
	outcomeRewound
	outcomeBusy
	outcomeStale
	outcomeRefused
	outcomeError
	outcomes
)

func (o outcome) String() string { return metrics.ReadOutcomes[o] }

// fine says that an error which came with the outcome is no failure: an answer, or a
// caller who has gone.
func (o outcome) fine() bool { return o == outcomeOK || o == outcomeCanceled }

// outcomeOf names what a read of ours came to.
func outcomeOf(err error) outcome {
	if err == nil {
		return outcomeOK
	}
	if _, ok := errors.AsType[*RewoundError](err); ok {
		return outcomeRewound
	}
	for _, known := range []struct {
		kind    error
		outcome outcome
	}{
		{ErrNotFresh, outcomeNotFresh}, {ErrNoFloor, outcomeNoFloor}, {ErrNotReady, outcomeNotReady},
		{ErrBusy, outcomeBusy}, {ErrRefused, outcomeRefused}, {context.Canceled, outcomeCanceled},
	} {
		if errors.Is(err, known.kind) {
			return known.outcome
		}
	}
	return outcomeOfInner(err)
}

// outcomeOfInner names what the inner storage answered. Its errors that are
// answers, such as not found, are no failure of the read.
func outcomeOfInner(err error) outcome {
	switch {
	case err == nil, storage.IsNotFound(err):
		return outcomeOK
	case storage.IsTooLargeResourceVersion(err):
		return outcomeTooLarge
	case apierrors.IsTooManyRequests(err):
		return outcomeNotReady
	case errors.Is(err, context.Canceled):
		return outcomeCanceled
	}
	return outcomeError
}

// observer tells metrics and the log about one resource. Counters of reads are
// made when they are first used: most of the combinations never are.
type observer struct {
	metrics    *metrics.Metrics
	series     *series
	history    *history
	gr         schema.GroupResource
	reads      [verbs][routeLeast + 1][outcomes]atomic.Pointer[prometheus.Counter]
	waitTime   [verbs]prometheus.Observer
	waiters    prometheus.Gauge
	lag        prometheus.Gauge
	lastFresh  prometheus.Gauge
	kicks      [2]prometheus.Counter // ok, error
	dropped    prometheus.Counter
	breaches   prometheus.Counter
	overtakens prometheus.Counter
	floor      atomic.Uint64 // of the newest gated read
	lastError  atomic.Pointer[ErrorStatus]
	lastPanic  atomic.Pointer[guard.PanicError]
}

func newObserver(b *Backend, gr schema.GroupResource) *observer {
	m, l := b.metrics, []string{gr.Group, gr.Resource}
	series := resourceSeries(m, gr.Group, gr.Resource)
	m.ZeroResource(gr.Group, gr.Resource)
	o := &observer{
		metrics:    m,
		series:     series,
		history:    &b.record.history,
		gr:         gr,
		waiters:    m.Waiters.WithLabelValues(l...),
		lag:        m.Lag.WithLabelValues(l...),
		lastFresh:  m.LastFresh.WithLabelValues(l...),
		kicks:      [2]prometheus.Counter{m.Kicks.WithLabelValues(append(l, metrics.OK)...), m.Kicks.WithLabelValues(append(l, metrics.Error)...)},
		dropped:    m.BookmarksDropped.WithLabelValues(l...),
		breaches:   m.Breaches.WithLabelValues(l...),
		overtakens: m.StreamReopens.WithLabelValues(append(l, "overtaken")...),
	}
	for v := range verbs {
		o.waitTime[v] = m.WaitDuration.WithLabelValues(append(l, v.String())...)
	}
	return o
}

func (o *observer) read(v verb, route routeKind, result outcome) {
	slot := &o.reads[v][route][result]
	counter := slot.Load()
	if counter == nil {
		if counter = o.readCounter(v, route, result); counter == nil {
			return
		}
		slot.Store(counter)
	}
	(*counter).Inc()
}

// readCounter is nil when the series are gone.
func (o *observer) readCounter(v verb, route routeKind, result outcome) (counter *prometheus.Counter) {
	o.series.while(func() {
		counter = new(o.metrics.Reads.WithLabelValues(o.gr.Group, o.gr.Resource, v.String(), route.String(), result.String()))
	})
	return counter
}

// failed notes the error of a read that was ended by it.
func (o *observer) failed(err error, result outcome) {
	if err != nil && !result.fine() {
		o.lastError.Store(&ErrorStatus{Time: time.Now(), Message: err.Error()})
	}
	// Its callers share it, and get no stack.
	if panicked, ok := errors.AsType[*guard.PanicError](err); ok && o.lastPanic.Swap(panicked) != panicked {
		klog.ErrorS(panicked, "A panic became the error of reads", "stack", string(panicked.Stack))
	}
}

func (o *observer) waiting(n float64) { o.waiters.Add(n) }

func (o *observer) behind(floor, applied uint64) {
	o.floor.Store(floor)
	if floor > applied {
		o.lag.Set(float64(floor - applied))
	} else {
		o.lag.Set(0)
	}
}

func (o *observer) fresh(v verb, arrived time.Time) {
	now := time.Now()
	waited := now.Sub(arrived)
	o.waitTime[v].Observe(waited.Seconds())
	o.lastFresh.Set(float64(now.UnixNano()) / 1e9)
	o.history.waitedFor(now, waited)
}

func (o *observer) kicked(err error) {
	switch {
	case err == nil:
		o.kicks[0].Inc()
	case !errors.Is(err, errNoWatch): // not sent: the watch is being opened
		o.kicks[1].Inc()
	}
}

// wrote counts a write that a cache's watch was to bring.
func (o *observer) wrote(err error) {
	outcome := metrics.Wrote
	if err != nil {
		outcome = metrics.Error
	}
	o.series.while(func() { o.metrics.Kicks.WithLabelValues(o.gr.Group, o.gr.Resource, outcome).Inc() })
}

// proof counts a range that was to prove a cache fresh.
func (o *observer) proof(proven bool) {
	outcome := metrics.Unproved
	if proven {
		outcome = metrics.Proved
	}
	o.series.while(func() { o.metrics.Kicks.WithLabelValues(o.gr.Group, o.gr.Resource, outcome).Inc() })
}

func (o *observer) stuck(target uint64) {
	klog.InfoS("The watch of a cache stands still below the backend's revision", "resource", o.gr, "target", target)
}

func (o *observer) bookmarkDropped() { o.dropped.Inc() }

func (o *observer) directList(result outcome) {
	o.series.while(func() {
		o.metrics.DirectLists.WithLabelValues(o.gr.Group, o.gr.Resource, result.String()).Inc()
	})
}

func (o *observer) breach(message string, keysAndValues ...any) {
	o.breaches.Inc()
	klog.ErrorS(nil, "rvfloor: "+message, append([]any{"resource", o.gr}, keysAndValues...)...)
}

// reopened says why the watch of a cache was opened anew.
func (o *observer) reopened(reason string) {
	o.series.while(func() {
		o.metrics.StreamReopens.WithLabelValues(o.gr.Group, o.gr.Resource, reason).Inc()
	})
}

func (o *observer) overtaken(revision, whole uint64) {
	o.overtakens.Inc()
	o.breach("the watch reported progress before the events below it; the cache fills anew", "event", revision, "progress", whole)
}

// nudged counts a write that was to move progress.
func (b *Backend) nudged(err error) {
	outcome := metrics.OK
	if err != nil {
		outcome = metrics.Error
		klog.V(2).InfoS("A backend could not be nudged", "backend", b.cfg.Name, "err", err)
	}
	b.series.while(func() { b.metrics.Nudges.WithLabelValues(b.cfg.Name, outcome).Inc() })
}

func (o *observer) disproved(revision, proven uint64) {
	o.breach("a range had shown nothing new, and the watch brought it; the cache fills anew", "event", revision, "range", proven)
}

// floorHooks tell metrics and the log about the revision reads of a backend.
func (b *Backend) floorHooks() freshness.Hooks {
	name := b.cfg.Name
	b.metrics.ZeroBackend(name, freshness.Evidences()...)
	duration, callers := b.metrics.FloorReadDuration.WithLabelValues(name), b.metrics.FloorReadCallers.WithLabelValues(name)
	ok := b.metrics.FloorReads.WithLabelValues(name, metrics.OK)
	return freshness.Hooks{
		Trace: b.traceFloor,
		Read: func(info freshness.ReadInfo) {
			if info.Outcome == freshness.OutcomeOK {
				ok.Inc()
			} else {
				b.metrics.FloorReads.WithLabelValues(name, string(info.Outcome)).Inc()
			}
			duration.Observe(info.Duration.Seconds())
			callers.Observe(float64(info.Callers))
			if b.record.floorRead(info) {
				b.chooser.recovering()
			}
		},
		Rewound: func(err *RewoundError) {
			b.metrics.Rewinds.WithLabelValues(name, err.Evidence).Inc()
			b.record.rewinds.Add(1)
			b.prober.doubt("it was rewound")
			klog.ErrorS(err, "The backend was rewound; its caches are not read any more", "backend", name)
		},
		Outage: func(err *freshness.OutageError) {
			klog.ErrorS(err.Err, "The revision of a backend cannot be read; until it can, reads that need it fail at once", "backend", name, "since", err.Since)
		},
		Recovered: func(lasted time.Duration, callers uint64) {
			klog.InfoS("The revision of a backend can be read again", "backend", name, "after", lasted, "failed reads", callers)
		},
	}
}
