package apiserver

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
)

// defaultEtcdClients lets half of the resources go on while a big list of another fills a connection. A connection carries
// any number of calls at once: what a second one adds is a TCP stream that does not wait behind the first's bytes.
const defaultEtcdClients = 2

// Config says how the reads of an API server are verified. The zero value verifies every read of the newest data, has etcd
// answer those whose watch cache does not get there in time, and fails those for which etcd cannot be asked. Fields without a
// comment are those of decorator.Config.
type Config struct {
	ZeroVersion  decorator.ZeroVersion
	MaxStaleness time.Duration
	// OnUnverified is that of decorator.Config, but empty means decorator.UnverifiedQuorum: what an API server answers
	// without rvfloor, when a watch cache is stuck or slow, it goes on to answer. decorator.UnverifiedFail is the strict
	// choice, which sends no list to etcd.
	OnUnverified decorator.OnUnverified
	Strategy     decorator.Strategy
	MaxWait      time.Duration
	ReadyWait    time.Duration
	CachedGets   bool
	Pulse        time.Duration
	// Shadow begins in decorator.ModeShadow; see SetMode.
	Shadow bool

	// Resources are verified, and no others; empty means all. ExceptResources are not. Those that are not keep the storage
	// that the API server would have had without rvfloor, etcd client included. At most one of the two may be set.
	Resources, ExceptResources []schema.GroupResource

	// Registerer takes the metrics of all backends, told apart by the label "backend"; nil means the registry that API
	// servers serve at /metrics (legacyregistry).
	Registerer prometheus.Registerer
	// TracerProvider takes the spans of verified reads; nil means that of the transport (which comes from the API server's
	// tracing configuration).
	TracerProvider trace.TracerProvider
	// SentinelKey is the etcd key that floors are read at; it is created when it is missing. nil means
	// "rvfloor/sentinel" under the etcd prefix, such as /registry/rvfloor/sentinel; where resources with several prefixes
	// share a transport, under the prefix of the first. Empty means that nothing is ever written, and floors are
	// read at a key that does not exist. All API servers of a cluster should name the same key.
	SentinelKey *string
	// EtcdClients is how many etcd clients the resources of one transport share for all but floors and the watches of
	// caches, which have a client of their own. A client has a connection to each etcd member. 0 means 2. (Upstream has a
	// client for each resource: kubernetes#111622.)
	EtcdClients int
}

// policy is the part that every backend shares.
func (c Config) policy() decorator.Config {
	return decorator.Config{
		ZeroVersion:    c.ZeroVersion,
		MaxStaleness:   c.MaxStaleness,
		OnUnverified:   cmp.Or(c.OnUnverified, decorator.UnverifiedQuorum),
		Strategy:       c.Strategy,
		MaxWait:        c.MaxWait,
		ReadyWait:      c.ReadyWait,
		CachedGets:     c.CachedGets,
		Pulse:          c.Pulse,
		Shadow:         c.Shadow,
		Registerer:     c.Registerer,
		TracerProvider: c.TracerProvider,
	}
}

func (c Config) validate() error {
	if err := c.policy().Validate(); err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	if c.EtcdClients < 0 {
		return fmt.Errorf("apiserver: Config.EtcdClients is %d; use a positive number, or 0 for %d", c.EtcdClients, defaultEtcdClients)
	}
	if len(c.Resources) > 0 && len(c.ExceptResources) > 0 {
		return fmt.Errorf("apiserver: Config.Resources and Config.ExceptResources are both set; use one of the two")
	}
	if c.SentinelKey != nil && *c.SentinelKey != "" && (*c.SentinelKey)[0] != '/' {
		return fmt.Errorf("apiserver: Config.SentinelKey is %q; use a key that starts with /, an empty one for no sentinel, or nil for the default", *c.SentinelKey)
	}
	return nil
}

// covers says whether the reads of a resource are verified.
func (c Config) covers(resource schema.GroupResource) bool {
	if len(c.Resources) > 0 {
		return slices.Contains(c.Resources, resource)
	}
	return !slices.Contains(c.ExceptResources, resource)
}

func (c Config) withDefaults() Config {
	if c.Registerer == nil {
		c.Registerer = legacyregistry.Registerer()
	}
	if c.EtcdClients == 0 {
		c.EtcdClients = defaultEtcdClients
	}
	return c
}

// sentinelKey is the key under an etcd prefix; write is false where nothing may be written to it.
func (c Config) sentinelKey(prefix string) (key string, write bool) {
	key = freshness.SentinelKey(path.Join("/", prefix))
	switch {
	case c.SentinelKey == nil:
		return key, true
	case *c.SentinelKey == "":
		return key, false
	default:
		return *c.SentinelKey, true
	}
}
