package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// parse reads the command line. It returns pflag.ErrHelp when help was asked for
// and has been printed.
func parse(args []string, stderr io.Writer) (o server.Options, verbosity int, err error) {
	flags := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.SortFlags = false
	flags.IntVar(&o.Port, "port", 0, "TCP port on 127.0.0.1; 0 takes any free one")
	flags.StringVar(&o.DataDir, "data-dir", "", "folder that keeps the embedded etcd's data (default: a temporary one, removed at exit)")
	flags.StringSliceVar(&o.EtcdServers, "etcd-servers", nil, "client URLs of a running etcd to use in place of the embedded one, comma separated")
	flags.BoolVar(&o.Stock, "stock", false, "leave rvfloor out: upstream's watch cache as it comes, for comparison")
	flags.IntVarP(&verbosity, "v", "v", 0, "log verbosity of the API server; at 0 only warnings and errors are printed")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "An API server with rvfloor, over an embedded etcd.\n\nUsage: go run ./examples/apiserver [flags]\n\n%s", flags.FlagUsages())
	}
	if err := flags.Parse(args); err != nil {
		return server.Options{}, 0, err
	}
	if flags.NArg() > 0 {
		return server.Options{}, 0, fmt.Errorf("%q is no flag: everything is set by flags, see --help", flags.Arg(0))
	}
	if verbosity < 0 {
		return server.Options{}, 0, fmt.Errorf("--v %d: use 0 (quiet) to 10", verbosity)
	}
	return o, verbosity, nil
}
