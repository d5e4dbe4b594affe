package server

import (
	"fmt"
	"net"
	"net/url"
	"os"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-base/tracing"

	rvapiserver "github.com/rvfloor/rvfloor/decorator/apiserver"
)

// loopback is the address that a server that stands alone listens on.
var loopback = net.IPv4(127, 0, 0, 1)

// Options says what Start starts. The zero value is a server on a free port of
// the loopback interface over an embedded etcd that forgets everything. The
// comments name the command line flag that sets a field, and so do the errors.
type Options struct {
	// DataDir (--data-dir) is the folder in which the embedded etcd keeps its
	// data; it is created when missing, and a later Start finds the objects
	// again. Empty: a temporary folder, removed by Stop.
	DataDir string

	// EtcdServers (--etcd-servers) are the client URLs of a running etcd, to be
	// used in place of the embedded one. The servers must be members of one
	// cluster. Empty: the embedded one.
	EtcdServers []string

	// VerifiedReads (--verified-reads-*) are rvfloor's options. nil: its defaults.
	VerifiedReads *rvapiserver.Options

	// Stock (--stock) leaves rvfloor out, as --verified-reads=false does: reads
	// are answered by upstream's watch cache as it comes.
	Stock bool

	// Port (--port) is the TCP port. 0: any free port.
	Port int

	// Aggregation (--aggregated) runs the server behind kube-aggregator. nil:
	// it stands alone on 127.0.0.1, with a token for writing in the kubeconfig
	// that it writes, and anonymous reads.
	Aggregation *Aggregation

	// TracerProvider (--trace) takes the spans of requests, of etcd calls and
	// of rvfloor; Stop shuts it down. nil: no spans.
	TracerProvider tracing.TracerProvider
}

// verifiedReads are rvfloor's options with all that o says.
func (o Options) verifiedReads() *rvapiserver.Options {
	verified := rvapiserver.NewOptions()
	if o.VerifiedReads != nil {
		*verified = *o.VerifiedReads
	}
	if o.Stock {
		verified.Enabled = false
	}
	return verified
}

// bindAddress is what the server listens on.
func (o Options) bindAddress() net.IP {
	if o.Aggregation != nil {
		return o.Aggregation.BindAddress
	}
	return loopback
}

// Validate returns an error that names the flag at fault and the fix.
func (o Options) Validate() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port %d is no TCP port: use 1 to 65535, or 0 for any free one", o.Port)
	}
	if o.DataDir != "" && len(o.EtcdServers) > 0 {
		return fmt.Errorf("--data-dir is for the embedded etcd, which --etcd-servers replaces: use one of the two")
	}
	if o.DataDir != "" {
		if info, err := os.Stat(o.DataDir); err == nil && !info.IsDir() {
			return fmt.Errorf("--data-dir %s is a file: name a folder, or one that does not exist yet", o.DataDir)
		}
	}
	for _, server := range o.EtcdServers {
		u, err := url.Parse(server)
		if err != nil || u.Host == "" || (u.Path != "" && u.Path != "/") {
			return fmt.Errorf("--etcd-servers: %q is no etcd URL: write it as http://127.0.0.1:2379", server)
		}
		if u.Scheme != "http" {
			return fmt.Errorf("--etcd-servers: %q: this example speaks plain http to etcd: use an http:// URL", server)
		}
	}
	if err := utilerrors.NewAggregate(o.verifiedReads().Validate()); err != nil {
		return err
	}
	if o.Aggregation != nil {
		return o.Aggregation.validate()
	}
	return nil
}
