package server

import (
	"errors"
	"fmt"
	"net"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// Aggregation is how the server runs behind kube-aggregator: reachable from
// other machines, and asking the kube-apiserver who a caller is and what it may do.
type Aggregation struct {
	// BindAddress (--bind-address) is what the server listens on.
	BindAddress net.IP

	// CertFile and KeyFile (--tls-cert-file, --tls-private-key-file) are the
	// serving certificate and its key, PEM. Empty: a self-signed one, which an
	// APIService has to take with insecureSkipTLSVerify.
	CertFile, KeyFile string

	// Authentication and Authorization are upstream's options, with upstream's
	// flags. Without a kubeconfig they use the service account of the pod.
	Authentication *genericoptions.DelegatingAuthenticationOptions
	Authorization  *genericoptions.DelegatingAuthorizationOptions
}

// NewAggregation has the defaults: every interface, a self-signed certificate,
// and the service account of the pod.
func NewAggregation() *Aggregation {
	authorization := genericoptions.NewDelegatingAuthorizationOptions()
	authorization.AlwaysAllowPaths = append(authorization.AlwaysAllowPaths, "/healthz/*", "/readyz/*", "/livez/*")
	return &Aggregation{
		BindAddress:    net.IPv4zero,
		Authentication: genericoptions.NewDelegatingAuthenticationOptions(),
		Authorization:  authorization,
	}
}

func (a *Aggregation) validate() error {
	if (a.CertFile == "") != (a.KeyFile == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file belong together: give both, or none for a self-signed certificate")
	}
	if a.BindAddress == nil {
		return errors.New("--bind-address is no IP address: use 0.0.0.0 for every interface")
	}
	return utilerrors.NewAggregate(append(a.Authentication.Validate(), a.Authorization.Validate()...))
}

// applyTo asks the kube-apiserver instead of keeping a token.
func (a *Aggregation) applyTo(cfg *genericserver.Config) error {
	if err := a.Authentication.ApplyTo(&cfg.Authentication, cfg.SecureServing, cfg.OpenAPIConfig); err != nil {
		return fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	if err := a.Authorization.ApplyTo(&cfg.Authorization); err != nil {
		return fmt.Errorf("--authorization-kubeconfig: %w", err)
	}
	return nil
}
