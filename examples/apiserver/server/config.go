package server

import (
	"fmt"
	"net"
	"time"

	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
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
// storage. It owns listener once it returned without an error.
func newConfig(listener net.Listener) (*genericserver.Config, error) {
	cfg := genericserver.NewConfig(demo.Codecs)
	cfg.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	cfg.OpenAPIConfig = demo.OpenAPIConfig()
	cfg.OpenAPIV3Config = demo.OpenAPIV3Config()
	cfg.ShutdownWatchTerminationGracePeriod = watchGrace

	// A self-signed certificate, held in memory.
	serving := genericoptions.NewSecureServingOptions()
	serving.Listener = listener
	serving.BindAddress = loopback
	serving.ServerCert.CertDirectory, serving.ServerCert.PairName = "", ""
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{loopback}); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if err := serving.WithLoopback().ApplyToConfig(cfg); err != nil {
		return nil, fmt.Errorf("serving: %w", err)
	}

	// An aggregated API server asks the kube-apiserver who a caller is and what
	// it may do. There is none here: everybody may do everything, which is why
	// the listener is on the loopback interface.
	cfg.Authentication.Authenticator = anonymous.NewAuthenticator(nil)
	cfg.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	return cfg, nil
}
