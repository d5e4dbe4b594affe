package decorator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rvfloor/rvfloor/freshness"
)

// Status is what a Backend does, at one moment, for people and debug pages: nothing
// may be decided by it. Revisions are the backend's; ages are in seconds.
type Status struct {
	Name string `json:"name"`
	// Source says what floors are read from: the Source as text, where it is a
	// fmt.Stringer, else its type.
	Source   string         `json:"source"`
	Mode     Mode           `json:"mode"`
	Policy   PolicyStatus   `json:"policy"`
	Strategy StrategyStatus `json:"strategy"`
	// Floor is the newest; nil before the first.
	Floor *FloorStatus `json:"floor,omitempty"`
	// FloorReads is how many revision reads were answered or failed, FloorReadsFailed
	// how many gave no floor.
	FloorReads       uint64 `json:"floorReads"`
	FloorReadsFailed uint64 `json:"floorReadsFailed"`
	// Failing says that the newest revision read gave no floor: it failed, or nobody
	// waited for its end.
	Failing bool `json:"failing"`
	// LastFloorError is why the newest of those that failed did.
	LastFloorError *ErrorStatus `json:"lastFloorError,omitempty"`
	// BatchSize is how many callers shared the newest revision read.
	BatchSize uint64 `json:"batchSize"`
	// Rewinds is how often the backend was seen to go back; Rewound is why reads fail
	// since, until the caches have been built anew, and else empty.
	Rewinds uint64 `json:"rewinds"`
	Rewound string `json:"rewound,omitempty"`
	// Resources are sorted by group, resource and prefix.
	Resources []ResourceStatus `json:"resources"`
	// History is the last five minutes, the oldest interval first.
	History []Interval `json:"history"`
}

// PolicyStatus is the part of a Config that says what reads get.
type PolicyStatus struct {
	ZeroVersion         ZeroVersion  `json:"zeroVersion"`
	MaxStalenessSeconds float64      `json:"maxStalenessSeconds,omitempty"`
	OnUnverified        OnUnverified `json:"onUnverified"`
	MaxWaitSeconds      float64      `json:"maxWaitSeconds"`
	ReadyWaitSeconds    float64      `json:"readyWaitSeconds"`
	CachedGets          bool         `json:"cachedGets"`
	// PulseSeconds is 0 where there is none.
	PulseSeconds float64 `json:"pulseSeconds"`
}

// StrategyStatus is how caches are brought to a floor, and why so.
type StrategyStatus struct {
	Name   Strategy `json:"name"`
	Reason string   `json:"reason"`
	// Refused is why no read is verified; empty: they are.
	Refused string `json:"refused,omitempty"`
	// Properties is what the backend was seen to do; nil: nobody has looked.
	Properties *Properties `json:"properties,omitempty"`
	// Failures are of strategies that would be cheaper, and do not work at present.
	Failures []Failure `json:"failures,omitempty"`
}

// FloorStatus is a floor and how long ago its read was sent.
type FloorStatus struct {
	Revision   uint64  `json:"revision"`
	AgeSeconds float64 `json:"ageSeconds"`
}

// ErrorStatus is an error and when it was met.
type ErrorStatus struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

// ResourceStatus is one Store.
type ResourceStatus struct {
	Group    string `json:"group"`
	Resource string `json:"resource"`
	Prefix   string `json:"prefix"`
	// Feed says whether the cache watches through a Feed, or a pilot asks it.
	Feed bool `json:"feed"`
	// Ready says whether the cache is filled, and not lost.
	Ready bool `json:"ready"`
	// Unfilled is why it, or the one that is to take a lost one's place, could not be filled
	// when that was last tried; empty: it is filled, or nothing has failed.
	Unfilled string `json:"unfilled,omitempty"`
	// Inconsistent is in what the cache was found to differ from the backend; empty: it was
	// not. Reads go past it.
	Inconsistent string `json:"inconsistent,omitempty"`
	// Floor is that of the newest gated read, Applied what the cache is known to
	// have, Lag by how much it is behind.
	Floor   uint64 `json:"floor"`
	Applied uint64 `json:"applied"`
	Lag     uint64 `json:"lag"`
	// Waiters is how many callers wait for the cache now.
	Waiters int `json:"waiters"`
	// LastFresh is when a read was last known to be fresh; nil: never.
	LastFresh *time.Time `json:"lastFresh,omitempty"`
	// Reads are counted by outcome, as in the metric rvfloor_reads_total. Reads and
	// kicks are those of all Backends that share this one's Registerer.
	Reads       map[string]uint64 `json:"reads"`
	Kicks       uint64            `json:"kicks"`
	KicksFailed uint64            `json:"kicksFailed"`
	// AheadSent is how many kicks went out beside a floor read that needed one, and
	// AheadPaid how many of these sufficed.
	AheadSent uint64       `json:"aheadSent"`
	AheadPaid uint64       `json:"aheadPaid"`
	LastError *ErrorStatus `json:"lastError,omitempty"`
}

// record is what a Backend remembers for Status and Check.
type record struct {
	history history
	reads   atomic.Uint64
	failed  atomic.Uint64
	callers atomic.Uint64 // of the newest read
	rewinds atomic.Uint64
	failing atomic.Bool // the newest read gave no floor
	outage  atomic.Bool // the newest that was not canceled failed
	failure atomic.Pointer[ErrorStatus]
}

// floorRead notes a revision read. One that was canceled is no failure of the backend,
// and no proof of its health either: its callers may have had no more patience.
// It returns whether it is the first floor after a read that failed.
func (r *record) floorRead(info freshness.ReadInfo) (recovered bool) {
	r.failing.Store(info.Err != nil)
	if info.Outcome == freshness.OutcomeCanceled {
		return false
	}
	now := time.Now()
	r.reads.Add(1)
	r.callers.Store(uint64(info.Callers))
	r.history.floorRead(now, info.Callers)
	if info.Err != nil {
		r.failed.Add(1)
		r.failure.Store(&ErrorStatus{Time: now, Message: info.Err.Error()})
	}
	return r.outage.Swap(info.Err != nil) && info.Err == nil
}

// Check is nil unless verified reads fail: the backend is rewound or refused, or Config.Probe
// has not looked at it yet, or the newest revision read gave no floor and neither does another
// one, which ctx bounds. It is nil in another mode than ModeVerify, where rvfloor fails no read.
// A resource whose cache a Healing could not fill again for a minute after a rewind is left out:
// Status names it.
func (b *Backend) Check(ctx context.Context) error {
	if b.Mode() != ModeVerify {
		return nil
	}
	overdue := func(s *Store) bool { return s.refill.Load().overdue() }
	if rewound := b.rewound(overdue); rewound != nil {
		return rewound
	}
	if b.looking() {
		return errLooking
	}
	if refused := b.chooser.present().refused; refused != nil {
		return refused
	}
	if !b.record.failing.Load() {
		return nil
	}
	// A server that is not ready gets no requests, so nobody else would find out that
	// the backend is back.
	_, err := b.floors.Next(ctx)
	return err
}

// Status is a snapshot.
func (b *Backend) Status() Status {
	now := time.Now()
	s := Status{
		Name:             b.cfg.Name,
		Source:           fmt.Sprintf("%T", b.cfg.Source),
		Mode:             b.Mode(),
		Policy:           b.cfg.status(),
		Strategy:         b.chooser.status(),
		FloorReads:       b.record.reads.Load(),
		FloorReadsFailed: b.record.failed.Load(),
		Failing:          b.record.failing.Load(),
		LastFloorError:   b.record.failure.Load(),
		BatchSize:        b.record.callers.Load(),
		Rewinds:          b.record.rewinds.Load(),
		Resources:        []ResourceStatus{},
		History:          b.record.history.intervals(now),
	}
	if named, ok := b.cfg.Source.(fmt.Stringer); ok {
		s.Source = named.String()
	}
	if floor, ok := b.floors.Last(); ok {
		s.Floor = &FloorStatus{Revision: floor.Revision, AgeSeconds: now.Sub(floor.SentAt).Seconds()}
	}
	if rewound := b.rewound(func(*Store) bool { return false }); rewound != nil {
		s.Rewound = rewound.Error()
	}
	for _, store := range b.stores() {
		s.Resources = append(s.Resources, store.status())
	}
	slices.SortFunc(s.Resources, func(x, y ResourceStatus) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Resource, y.Resource), cmp.Compare(x.Prefix, y.Prefix))
	})
	return s
}

// rewound returns why reads of a Store fail, or nil. Stores that may be left out are.
func (b *Backend) rewound(overdue func(*Store) bool) *RewoundError {
	for _, store := range b.stores() {
		if rewound := store.epoch.Rewound(); rewound != nil && !overdue(store) {
			return rewound
		}
	}
	return b.floors.Rewound()
}

// stores are those that are in use.
func (b *Backend) stores() (open []*Store) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		if store, ok := c.(*Store); ok && !store.aside.Load() {
			open = append(open, store)
		}
	}
	return open
}

func (c Config) status() PolicyStatus {
	return PolicyStatus{
		ZeroVersion:         c.ZeroVersion,
		MaxStalenessSeconds: c.MaxStaleness.Seconds(),
		OnUnverified:        c.OnUnverified,
		MaxWaitSeconds:      c.MaxWait.Seconds(),
		ReadyWaitSeconds:    c.ReadyWait.Seconds(),
		CachedGets:          c.CachedGets,
		PulseSeconds:        max(0, c.Pulse).Seconds(),
	}
}

func (s *Store) status() ResourceStatus {
	o := s.observe
	out := ResourceStatus{
		Group:       s.resource.GroupResource.Group,
		Resource:    s.resource.GroupResource.Resource,
		Prefix:      s.resource.Prefix,
		Feed:        s.resource.Feed != nil,
		Ready:       s.inner.ReadinessCheck() == nil && s.loss(false) == nil,
		Floor:       o.floor.Load(),
		Applied:     s.stream.Revision(), // after the floor: it is not behind by what came meanwhile
		Waiters:     s.stream.Waiters(),
		Reads:       map[string]uint64{},
		Kicks:       uint64(valueOf(o.kicks[0])),
		KicksFailed: uint64(valueOf(o.kicks[1])),
		LastError:   o.lastError.Load(),
	}
	out.Lag = max(out.Floor, out.Applied) - out.Applied
	out.AheadPaid, out.AheadSent = s.stream.AheadPaid()
	if wrong := s.wrong.Load(); wrong != nil {
		out.Inconsistent = wrong.Error()
	}
	if why := s.unfilled(); why != nil {
		out.Unfilled = why.Error()
	}
	if at := valueOf(o.lastFresh); at > 0 {
		out.LastFresh = new(time.UnixMilli(int64(at * 1000)).UTC())
	}
	for v := range o.reads {
		for route := range o.reads[v] {
			for result := range o.reads[v][route] {
				if counter := o.reads[v][route][result].Load(); counter != nil {
					out.Reads[outcome(result).String()] += uint64(valueOf(*counter))
				}
			}
		}
	}
	return out
}

// valueOf is the value of a counter or a gauge.
func valueOf(m prometheus.Metric) float64 {
	var out dto.Metric
	if m.Write(&out) != nil {
		return 0
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}
