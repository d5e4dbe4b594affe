package apiserver

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/server/options"

	"github.com/rvfloor/rvfloor/decorator"
)

const (
	flagEnabled         = "verified-reads"
	flagZeroVersion     = flagEnabled + "-zero-version"
	flagMaxStaleness    = flagEnabled + "-max-staleness"
	flagOnUnverified    = flagEnabled + "-on-unverified"
	flagMaxWait         = flagEnabled + "-max-wait"
	flagReadyWait       = flagEnabled + "-ready-wait"
	flagStrategy        = flagEnabled + "-strategy"
	flagCachedGets      = flagEnabled + "-cached-gets"
	flagPulse           = flagEnabled + "-pulse"
	flagShadow          = flagEnabled + "-shadow"
	flagModeFile        = flagEnabled + "-mode-file"
	flagEtcdClients     = flagEnabled + "-etcd-clients"
	flagSentinelKey     = flagEnabled + "-sentinel-key"
	flagResources       = flagEnabled + "-resources"
	flagExceptResources = flagEnabled + "-except-resources"
)

// minPulse keeps the writes of the pulse, which all API servers make, out of the way of others.
const minPulse = time.Second

// Validate answers an error for each wrong value and each contradiction, which names the flags and what to write instead.
func (o *Options) Validate() []error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	c := o.Config
	known := func(flag, value string, values ...string) {
		if !slices.Contains(values, value) {
			refuse("--%s=%s: use one of %s", flag, value, strings.Join(values, ", "))
		}
	}
	var strategies []string
	for _, s := range decorator.Strategies() {
		strategies = append(strategies, string(s))
	}
	known(flagZeroVersion, string(c.ZeroVersion), string(decorator.ZeroVerified), string(decorator.ZeroBounded), string(decorator.ZeroAsIs))
	known(flagOnUnverified, string(c.OnUnverified), string(decorator.UnverifiedQuorum), string(decorator.UnverifiedFail), string(decorator.UnverifiedDirect), string(decorator.UnverifiedStale))
	known(flagStrategy, string(c.Strategy), strategies...)
	positive := func(flag string, value time.Duration, example string) {
		if value <= 0 {
			refuse("--%s=%v: use a duration above 0, such as %s", flag, value, example)
		}
	}
	positive(flagMaxWait, c.MaxWait, "3s")
	positive(flagReadyWait, c.ReadyWait, "200ms")
	switch bounded := c.ZeroVersion == decorator.ZeroBounded; {
	case c.MaxStaleness < 0:
		positive(flagMaxStaleness, c.MaxStaleness, "10s")
	case bounded && c.MaxStaleness == 0:
		refuse("--%s=%s needs --%s: set it to the oldest answer that you accept, such as 10s", flagZeroVersion, c.ZeroVersion, flagMaxStaleness)
	case !bounded && c.MaxStaleness != 0:
		refuse("--%s has no effect with --%s=%s: leave it out, or use --%s=%s", flagMaxStaleness, flagZeroVersion, c.ZeroVersion, flagZeroVersion, decorator.ZeroBounded)
	}
	if c.Pulse != 0 && c.Pulse < minPulse {
		refuse("--%s=%v: use 0 for none, or a duration of %v or more, such as 1m", flagPulse, c.Pulse, minPulse)
	}
	if c.EtcdClients < 1 {
		refuse("--%s=%d: use 1 or more", flagEtcdClients, c.EtcdClients)
	}
	if key := c.SentinelKey; key != nil && *key != "" && (!strings.HasPrefix(*key, "/") || path.Clean(*key) != *key) {
		refuse(`--%s=%s: use a key such as /registry/rvfloor/sentinel, or "" to write nothing`, flagSentinelKey, *key)
	}
	if c.Shadow && !o.Enabled {
		refuse("--%s has no effect with --%s=false: leave out one of the two", flagShadow, flagEnabled)
	}
	if o.ModeFile != "" && !o.Enabled {
		refuse("--%s has no effect with --%s=false: leave out one of the two", flagModeFile, flagEnabled)
	}
	if o.ModeFile != "" && c.Shadow {
		refuse("--%s and --%s contradict each other, the file names the mode: leave out --%s, and write %s into the file", flagModeFile, flagShadow, flagShadow, decorator.ModeShadow)
	}
	if len(o.Resources) > 0 && len(o.ExceptResources) > 0 {
		refuse("--%s and --%s contradict each other: use one of the two", flagResources, flagExceptResources)
	}
	_, wrong := parseResources(flagResources, o.Resources)
	_, alsoWrong := parseResources(flagExceptResources, o.ExceptResources)
	return slices.Concat(errs, wrong, alsoWrong)
}

// validateWith answers what contradicts the etcd options: to ask for a resource to be verified that has no watch cache.
func (o *Options) validateWith(etcd *options.EtcdOptions) []error {
	if etcd == nil || len(o.Resources) == 0 {
		return nil
	}
	if !etcd.EnableWatchCache {
		return []error{fmt.Errorf("--%s has no effect with --watch-cache=false, where every read comes from etcd: leave out one of the two", flagResources)}
	}
	sizes, err := options.ParseWatchCacheSizes(etcd.WatchCacheSizes)
	if err != nil {
		return []error{fmt.Errorf("--watch-cache-sizes: use resource[.group]#size: %w", err)}
	}
	resources, _ := parseResources(flagResources, o.Resources)
	var errs []error
	for _, r := range resources {
		if size, ok := sizes[r]; ok && size <= 0 {
			errs = append(errs, fmt.Errorf("--%s=%s has no effect with --watch-cache-sizes=%s#0, which reads it from etcd: leave out one of the two", flagResources, r, r))
		}
	}
	return errs
}

// version is a group that was meant as a version, as in v1/pods and deployments.v1.apps.
var version = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?(\.|$)`)

// parseResources takes the forms of --watch-cache-sizes (resource[.group]) and of --etcd-servers-overrides (group/resource).
func parseResources(flag string, names []string) (resources []schema.GroupResource, errs []error) {
	for _, name := range names {
		r := schema.ParseGroupResource(name)
		if group, resource, ok := strings.Cut(name, "/"); ok {
			r = schema.GroupResource{Group: group, Resource: resource}
		}
		if len(validation.IsDNS1123Label(r.Resource)) > 0 || version.MatchString(r.Group) ||
			r.Group != "" && len(validation.IsDNS1123Subdomain(r.Group)) > 0 {
			errs = append(errs, fmt.Errorf("--%s: %q is no resource: use resource[.group] or group/resource, without a version, such as pods, deployments.apps or apps/deployments", flag, name))
			continue
		}
		resources = append(resources, r)
	}
	return resources, errs
}
