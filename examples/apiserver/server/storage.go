package server

import (
	genericserver "k8s.io/apiserver/pkg/server"
)

// applyStorage sets the storage of cfg.
func applyStorage(cfg *genericserver.Config, endpoints []string, stock bool) (closeStorage func() error, err error) {
	if err := applyEtcd(cfg, endpoints); err != nil {
		return nil, err
	}
	return func() error { return nil }, nil
}
