package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	rvapiserver "github.com/rvfloor/rvfloor/decorator/apiserver"
	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// command is what the command line asks for.
type command struct {
	server.Options
	trace     string
	verbosity int
}

// parse reads the command line. It returns pflag.ErrHelp when help was asked for
// and has been printed.
func parse(args []string, stderr io.Writer) (command, error) {
	var c command
	flags := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.SortFlags = false
	flags.IntVar(&c.Port, "port", 0, "TCP port; 0 takes any free one")
	flags.StringVar(&c.DataDir, "data-dir", "", "folder that keeps the embedded etcd's data, and the kubeconfig (default: a temporary one, removed at exit)")
	flags.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "client URLs of a running etcd to use in place of the embedded one, comma separated")
	flags.BoolVar(&c.Stock, "stock", false, "leave rvfloor out: upstream's watch cache as it comes, for comparison")
	flags.StringVar(&c.trace, "trace", "", "where spans go: stdout, or otlp for the collector that the OTEL_EXPORTER_OTLP_* variables name")
	flags.IntVarP(&c.verbosity, "v", "v", 0, "log verbosity of the API server; at 0 only warnings and errors are printed")
	aggregated := flags.Bool("aggregated", false, "run behind kube-aggregator: delegate authentication and authorization, and take the flags for that")

	c.VerifiedReads = rvapiserver.NewOptions()
	verified := pflag.NewFlagSet("verified reads", pflag.ContinueOnError)
	verified.SortFlags = false
	c.VerifiedReads.AddFlags(verified)

	aggregation := server.NewAggregation()
	more := pflag.NewFlagSet("aggregated", pflag.ContinueOnError)
	more.SortFlags = false
	more.IPVar(&aggregation.BindAddress, "bind-address", aggregation.BindAddress, "address to listen on")
	more.StringVar(&aggregation.CertFile, "tls-cert-file", "", "serving certificate, PEM (default: a self-signed one)")
	more.StringVar(&aggregation.KeyFile, "tls-private-key-file", "", "its private key, PEM")
	aggregation.Authentication.AddFlags(more)
	aggregation.Authorization.AddFlags(more)

	flags.Usage = func() {
		fmt.Fprintf(stderr, "An API server with rvfloor, over an embedded etcd.\n\nUsage: go run ./examples/apiserver [flags]\n\n%s\nrvfloor:\n\n%s\nWith --aggregated:\n\n%s",
			flags.FlagUsages(), verified.FlagUsages(), more.FlagUsages())
	}
	all := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	all.SetOutput(stderr)
	all.AddFlagSet(flags)
	all.AddFlagSet(verified)
	all.AddFlagSet(more)
	all.Usage = flags.Usage
	if err := all.Parse(args); err != nil {
		return command{}, err
	}
	if all.NArg() > 0 {
		return command{}, fmt.Errorf("%q is no flag: everything is set by flags, see --help", all.Arg(0))
	}
	if c.verbosity < 0 {
		return command{}, fmt.Errorf("--v %d: use 0 (quiet) to 10", c.verbosity)
	}
	c.Stock = c.Stock || !c.VerifiedReads.Enabled
	if *aggregated {
		c.Aggregation = aggregation
		return c, nil
	}
	var stray error
	more.VisitAll(func(f *pflag.Flag) {
		if f.Changed && stray == nil {
			stray = fmt.Errorf("--%s is for a server behind kube-aggregator: add --aggregated, or leave it out", f.Name)
		}
	})
	return c, stray
}
