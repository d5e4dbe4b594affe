package server

import (
	"fmt"
	"net"
	"time"

	genericserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"

	"github.com/rvfloor/rvfloor/examples/apiserver/demo"
)

// watchGrace is how long Stop waits for open watches to end after it told them
// to. Without it an open watch would hold up the shutdown for the whole request
// timeout (60 s); they end within milliseconds.
const watchGrace = 2 * time.Second

// newConfig is the configuration of the generic API server, all but the
// storage, and the token that may do everything (empty behind kube-aggregator).
// The configuration owns listener once it returned without an error.
func newConfig(listener net.Listener, o Options) (cfg *genericserver.Config, token string, err error) {
	cfg = genericserver.NewConfig(demo.Codecs)
	cfg.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	cfg.OpenAPIConfig = demo.OpenAPIConfig()
	cfg.OpenAPIV3Config = demo.OpenAPIV3Config()
	cfg.ShutdownWatchTerminationGracePeriod = watchGrace
	if o.TracerProvider != nil {
		cfg.TracerProvider = o.TracerProvider
	}
	if err := applyServing(cfg, listener, o); err != nil {
		return nil, "", err
	}
	if o.Aggregation != nil {
		return cfg, "", o.Aggregation.applyTo(cfg)
	}
	token, err = applyTokenAccess(cfg)
	return cfg, token, err
}

// applyServing serves TLS on the listener, by default with a self-signed
// certificate that is held in memory.
func applyServing(cfg *genericserver.Config, listener net.Listener, o Options) error {
	serving := genericoptions.NewSecureServingOptions()
	serving.Listener = listener
	serving.BindAddress = o.bindAddress()
	serving.ServerCert.CertDirectory, serving.ServerCert.PairName = "", ""
	if o.Aggregation != nil {
		serving.ServerCert.CertKey.CertFile = o.Aggregation.CertFile
		serving.ServerCert.CertKey.KeyFile = o.Aggregation.KeyFile
	}
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{loopback}); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if err := serving.WithLoopback().ApplyToConfig(cfg); err != nil {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
