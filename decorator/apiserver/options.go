package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"

	"github.com/rvfloor/rvfloor/decorator"
)

// Options are the flags --verified-reads and --verified-reads-*, for an API server that is put together from
// k8s.io/apiserver/pkg/server/options.
type Options struct {
	// Enabled is --verified-reads. false leaves the API server as it would be without rvfloor.
	Enabled bool
	// Config takes the other flags (a Pulse of 0 means none here), except those below. What has no flag may be set too.
	Config Config
	// ModeFile is a file that names the mode: one word, "verify", "shadow" or "off". It is read at the start, and then
	// whenever it changes. Against DebugPath the last change wins; a restart begins with the file. While the file is missing,
	// or says something else, the mode stays. Empty means no file.
	ModeFile string
	// Resources and ExceptResources name the resources that are verified, and those that are not: "resource.group",
	// "group/resource", or "resource" for the core group.
	Resources, ExceptResources []string
}

// NewOptions answers the defaults: every read is verified, by etcd itself where the watch cache does not get there in time,
// and fails where etcd cannot be asked.
func NewOptions() *Options {
	return &Options{
		Enabled: true,
		Config: Config{
			ZeroVersion:  decorator.ZeroVerified,
			OnUnverified: decorator.UnverifiedQuorum,
			Strategy:     decorator.StrategyAuto,
			MaxWait:      3 * time.Second,
			ReadyWait:    200 * time.Millisecond,
			Pulse:        time.Minute,
			EtcdClients:  defaultEtcdClients,
		},
	}
}

// AddFlags adds the flags to fs.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	o.addFlags(own)
	own.VisitAll(func(f *pflag.Flag) {
		hint(f)
		fs.AddFlag(f)
	})
}

func (o *Options) addFlags(fs *pflag.FlagSet) {
	c := &o.Config
	fs.BoolVar(&o.Enabled, flagEnabled, o.Enabled, ""+
		"Verify reads from the watch cache, so that they reflect every write acknowledged before they began. "+
		"If false, the server is as it would be without verified reads. A running server is switched by POST to "+DebugPath+", or by --"+flagModeFile+".")
	fs.StringVar((*string)(&c.ZeroVersion), flagZeroVersion, string(c.ZeroVersion), ""+
		"What a read at resourceVersion 0 gets. Verified: the newest data, as with resourceVersion unset. "+
		"Bounded: data at most --"+flagMaxStaleness+" old. AsIs: whatever the watch cache has, however old.")
	fs.DurationVar(&c.MaxStaleness, flagMaxStaleness, c.MaxStaleness, ""+
		"How old an answer at resourceVersion 0 may be. Only with --"+flagZeroVersion+"=Bounded, and required there.")
	fs.StringVar((*string)(&c.OnUnverified), flagOnUnverified, string(c.OnUnverified), ""+
		"What a read gets that cannot be verified in time. "+
		"Quorum: where only the watch cache is late, the answer of etcd, shared by equal lists, five at once per resource, "+
		"with users taking turns; else an error, and watches fail. "+
		"Fail: an error that says when to retry. Direct: the answer of etcd, also where the newest revision could not be read. "+
		"Stale: the answer of the watch cache, with a Warning header.")
	fs.DurationVar(&c.MaxWait, flagMaxWait, c.MaxWait,
		"The longest that a read waits for the watch cache to become fresh, cut to the deadline of the request.")
	fs.DurationVar(&c.ReadyWait, flagReadyWait, c.ReadyWait, ""+
		"The longest that a read waits for a watch cache that is still being filled, cut to --"+flagMaxWait+". "+
		"A request that waits holds a seat of priority and fairness.")
	fs.StringVar((*string)(&c.Strategy), flagStrategy, string(c.Strategy),
		""+
			"How a watch cache is made fresh. auto: by the cheapest way that is sound on the backend, and the next while that does not work. "+
			"request: by progress requests on its own watch. nudge: likewise, and a write to the key of --"+flagSentinelKey+" where the replies stand still. "+
			"range-proof: by ranges of the resource that show that nothing was changed. "+
			"write: by writes of an object among those of the resource, which servers without this flag show. "+
			"direct: not at all, lists go to the backend, equal ones together, and watches of the newest data fail.")
	fs.BoolVar(&c.CachedGets, flagCachedGets, c.CachedGets,
		"Answer a get with resourceVersion unset from the verified watch cache instead of etcd.")
	fs.DurationVar(&c.Pulse, flagPulse, c.Pulse, ""+
		"How often the key at which the newest revision is read is written, so that a restore of etcd is noticed. "+
		"Without reads the revision is read too, each 10s, or with each write where that is more often. 0: neither.")
	fs.BoolVar(&c.Shadow, flagShadow, c.Shadow, ""+
		"Verify and count every read, and change no answer. A running server is switched by POST to "+DebugPath+", or by --"+flagModeFile+".")
	fs.StringVar(&o.ModeFile, flagModeFile, o.ModeFile, ""+
		"A file with one word, verify, shadow or off, which is read at the start and whenever it changes: a switch that needs no restart. "+
		"A POST to "+DebugPath+" holds until the word changes.")
	fs.IntVar(&c.EtcdClients, flagEtcdClients, c.EtcdClients, ""+
		"How many etcd clients all resources share, beside one for verification and the watches of watch caches. "+
		"Each has a connection to each etcd server.")
	fs.Func(flagSentinelKey, ""+
		"The etcd key at which the newest revision is read; it is created when it is missing. Empty: nothing is written, "+
		"nor is etcd probed, and strategy auto is direct: name another. "+
		"All API servers of a cluster should use the same key. (default rvfloor/sentinel under --etcd-prefix)",
		func(key string) error { c.SentinelKey = &key; return nil })
	fs.StringSliceVar(&o.Resources, flagResources, o.Resources, ""+
		"The resources whose reads are verified, comma separated: resource[.group] or group/resource. Empty: all that have a watch cache.")
	fs.StringSliceVar(&o.ExceptResources, flagExceptResources, o.ExceptResources, ""+
		"The resources whose reads are not verified, in the form of --"+flagResources+". They keep the stock storage.")
}

// ApplyTo wires verified reads into c, to which etcd has been applied before: the storages of all resources with a watch
// cache, the readiness check, and the debug page behind c's authentication and authorization. Resources that etcd leaves
// without a watch cache (--watch-cache=false, --watch-cache-sizes) stay as they are. Where servers delegate to each other, c is
// that of the outermost: the handler chains of the others, and with them the page, are not reached.
//
// A server that runs and stops needs nothing more: its Destroy, which comes after the last request and watch have ended,
// destroys every storage that was installed, and the last one closes the clients. Close what ApplyTo answers where the server
// may not get so far.
func (o *Options) ApplyTo(c *genericserver.Config, etcd *options.EtcdOptions) (*Backends, error) {
	if c.RESTOptionsGetter == nil {
		return nil, errors.New("apiserver: Config.RESTOptionsGetter is nil; apply the etcd options to the config before verified reads")
	}
	if errs := append(o.Validate(), o.validateWith(etcd)...); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	cfg := o.Config
	if cfg.Pulse == 0 {
		cfg.Pulse = -1
	}
	cfg.Resources, _ = parseResources(flagResources, o.Resources)
	cfg.ExceptResources, _ = parseResources(flagExceptResources, o.ExceptResources)
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = c.TracerProvider
	}
	backends, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if o.ModeFile != "" {
		if err := o.applyModeFile(c, backends); err != nil {
			return nil, errors.Join(err, backends.Close())
		}
	}
	if o.Enabled {
		c.RESTOptionsGetter = backends.RESTOptionsGetter(c.RESTOptionsGetter)
		c.AddReadyzChecks(backends.HealthCheck())
	} else {
		backends.notWired, backends.mode = true, decorator.ModeOff
	}
	// A config has no mux yet, and the one that the server will have is reached through the handler chain that it builds: the
	// page stands at its inner end, where the API is.
	build, page := c.BuildHandlerChainFunc, backends.DebugHandler()
	c.BuildHandlerChainFunc = func(api http.Handler, c *genericserver.Config) http.Handler {
		return build(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == DebugPath {
				page.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		}), c)
	}
	return backends, nil
}

// applyModeFile refuses a file that names no mode. The file is followed while the server runs, which knows no other end of
// what was started for it.
func (o *Options) applyModeFile(c *genericserver.Config, b *Backends) error {
	b.modeFile = &modeFile{path: o.ModeFile, set: b.SetMode}
	if err := b.modeFile.read(context.Background()); err != nil {
		return err
	}
	return c.AddPostStartHook(flagModeFile, func(ctx genericserver.PostStartHookContext) error {
		b.followModeFile(ctx)
		return nil
	})
}
