package decorator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rvfloor/rvfloor/freshness"
)

// ZeroVersion is what a read at resourceVersion "0" gets.
type ZeroVersion string

const (
	// ZeroVerified reads "0" like unset: never older than the call. The default.
	ZeroVerified ZeroVersion = "Verified"
	// ZeroBounded reads "0" at most Config.MaxStaleness old.
	ZeroBounded ZeroVersion = "Bounded"
	// ZeroAsIs is the stock behaviour: arbitrarily old, and back in time after a
	// restart (kubernetes/kubernetes#59848).
	ZeroAsIs ZeroVersion = "AsIs"
)

// OnUnverified is what a read gets whose answer could not be verified in time.
type OnUnverified string

const (
	// UnverifiedFail answers an error with Retry-After. The default.
	UnverifiedFail OnUnverified = "Fail"
	// UnverifiedDirect answers a LIST by a quorum list of the raw storage, a Get by a raw
	// Get. A Watch fails. At most five lists of a resource are under way at once: more wait
	// for their turn, see Config.FlowOf, and share where Resource.SharesLists is set.
	UnverifiedDirect OnUnverified = "Direct"
	// UnverifiedQuorum is UnverifiedDirect where the revision that the answer must not be
	// below is known, and only the cache did not get there; and UnverifiedFail where the
	// backend could not be asked for it.
	UnverifiedQuorum OnUnverified = "Quorum"
	// UnverifiedStale answers from the cache, with a Warning header. Not after a
	// rewind, where the cache holds what never was.
	UnverifiedStale OnUnverified = "Stale"
)

const (
	defaultMaxWait   = 3 * time.Second
	defaultReadyWait = 200 * time.Millisecond
)

// Config says how the reads of one backend are verified.
type Config struct {
	// Name is the value of the backend label in metrics; empty means "default".
	Name string
	// Source reads the backend's revision linearizably. Required.
	Source freshness.Source
	// ZeroVersion is for reads at resourceVersion "0"; empty means ZeroVerified.
	ZeroVersion ZeroVersion
	// MaxStaleness is the age of the answers under ZeroBounded, and required there.
	MaxStaleness time.Duration
	// OnUnverified is for reads that could not be verified; empty means
	// UnverifiedFail.
	OnUnverified OnUnverified
	// Strategy is how caches are brought to a floor; empty means StrategyAuto.
	Strategy Strategy
	// Probe looks at what the backend does, for StrategyAuto: at the start, until when reads
	// wait (at most MaxWait; where Resource.Raw can answer them instead, a second), and again
	// after faults, at most once a minute. nil: where the Source is a freshness.Sentinel, what
	// probe.For finds through its client, which writes beside the sentinel's key; for any other
	// Source StrategyRequest is taken, on the word of whoever brings the storage.
	// SetProperties may be called instead, and ends both.
	Probe Prober
	// MaxWait is the longest that a read waits to become fresh, counted from its arrival
	// whatever it waits for, and cut to the caller's own deadline; 0 means 3 s, as
	// upstream's cacher waits.
	MaxWait time.Duration
	// ReadyWait is the longest that a read waits for a cache that is still being
	// filled; 0 means 200 ms. A waiting request holds a seat of priority and
	// fairness, so it is short.
	ReadyWait time.Duration
	// Pulse is how often the witness of the backend's history is appended to, where the
	// Source is a Witness, while there are Stores. The floor is read then too, each 10 s
	// or with each pulse where that is shorter, unless somebody else has: both let a
	// restore be seen that the revision alone does not show. 0 means a minute; negative,
	// neither is done.
	Pulse time.Duration
	// FlowOf names whom a direct list is for. When there are more of them than may be under way
	// at once, flows take turns, so that one who asks for many does not keep out the others.
	// nil means the name of the request's user.
	FlowOf func(context.Context) string
	// CachedGets answers Gets with resourceVersion unset from the cache too.
	CachedGets bool
	// Shadow begins in ModeShadow: every read is verified and counted, no answer is
	// changed. See Backend.SetMode.
	Shadow bool
	// Registerer takes the metrics; nil means none. Several Backends may share one.
	Registerer prometheus.Registerer
	// TracerProvider takes the spans of verified reads and of the floor reads that they
	// share; nil means none. docs/operations.md lists them.
	TracerProvider trace.TracerProvider
}

// Validate checks all but Source, naming the field and the fix.
func (c Config) Validate() error {
	if err := oneOf("ZeroVersion", c.ZeroVersion, ZeroVerified, ZeroBounded, ZeroAsIs); err != nil {
		return err
	}
	if err := oneOf("OnUnverified", c.OnUnverified, UnverifiedFail, UnverifiedQuorum, UnverifiedDirect, UnverifiedStale); err != nil {
		return err
	}
	if err := oneOf("Strategy", c.Strategy, strategies...); err != nil {
		return err
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"MaxStaleness", c.MaxStaleness}, {"MaxWait", c.MaxWait}, {"ReadyWait", c.ReadyWait}} {
		if d.value < 0 {
			return fmt.Errorf("decorator: Config.%s is %v; use a positive duration, or 0 for the default", d.field, d.value)
		}
	}
	bounded := c.ZeroVersion == ZeroBounded
	if bounded && c.MaxStaleness == 0 {
		return fmt.Errorf("decorator: Config.MaxStaleness is required with ZeroVersion %q; set it to the oldest answer you accept", ZeroBounded)
	}
	if !bounded && c.MaxStaleness != 0 {
		return fmt.Errorf("decorator: Config.MaxStaleness has no effect with ZeroVersion %q; unset it, or use %q", c.ZeroVersion, ZeroBounded)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Name = orDefault(c.Name, "default")
	c.ZeroVersion = orDefault(c.ZeroVersion, ZeroVerified)
	c.OnUnverified = orDefault(c.OnUnverified, UnverifiedFail)
	c.Strategy = orDefault(c.Strategy, StrategyAuto)
	c.Pulse = orDefault(c.Pulse, defaultPulse)
	c.MaxWait = orDefault(c.MaxWait, defaultMaxWait)
	c.ReadyWait = min(orDefault(c.ReadyWait, defaultReadyWait), c.MaxWait)
	return c
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func oneOf[T ~string](field string, value T, known ...T) error {
	if value == "" {
		return nil
	}
	names := make([]string, 0, len(known))
	for _, k := range known {
		if value == k {
			return nil
		}
		names = append(names, fmt.Sprintf("%q", string(k)))
	}
	return fmt.Errorf("decorator: Config.%s is %q; use one of %s", field, string(value), strings.Join(names, ", "))
}
