package apiserver_test

import (
	"github.com/spf13/pflag"
	genericserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/rvfloor/rvfloor/decorator/apiserver"
)

// A server that is put together from options, as those made from k8s.io/sample-apiserver are.
func ExampleOptions() {
	_ = func(config *genericserver.Config, etcdOptions *genericoptions.EtcdOptions, flags *pflag.FlagSet, args []string) (*apiserver.Backends, error) {
		options := apiserver.NewOptions() // github.com/rvfloor/rvfloor/decorator/apiserver
		options.AddFlags(flags)
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if err := etcdOptions.ApplyTo(config); err != nil {
			return nil, err
		}
		backends, err := options.ApplyTo(config, etcdOptions)
		if err != nil {
			return nil, err
		}
		return backends, nil
	}
}

// A server without flags of rvfloor's.
func ExampleNew() {
	_ = func(config *genericserver.Config, run func(*genericserver.Config) error) error {
		backends, err := apiserver.New(apiserver.Config{})
		if err != nil {
			return err
		}
		defer backends.Close()
		config.RESTOptionsGetter = backends.RESTOptionsGetter(config.RESTOptionsGetter)
		return run(config)
	}
}
