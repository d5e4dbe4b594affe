// Package apiserver wires verified reads into an API server. After its etcd options have been applied:
//
//	backends, err := apiserver.New(apiserver.Config{})
//	if err != nil {
//		return err
//	}
//	defer backends.Close()
//	config.RESTOptionsGetter = backends.RESTOptionsGetter(config.RESTOptionsGetter)
//
// A server with flags has Options among its own, and after the etcd options
//
//	backends, err := options.ApplyTo(config, etcdOptions)
//
// which adds the readiness check "rvfloor" and the page DebugPath, where a running server is switched off and on.
//
// It builds for each resource what the API server would have built (etcd client, storage, watch cache), with a
// decorator.Feed behind the cache and a decorator.Store in front of it. The etcd side is done again from upstream's unexported
// set-up, and tests hold the two side by side. What differs, on purpose:
//
//   - Resources share a few etcd clients, and one more for floors and the watches of caches; upstream has one for each resource.
//   - That client has neither upstream's gRPC metrics nor its trace handler: rvfloor counts its own reads.
//   - The compactor is ours alone, also beside resources without a watch cache, which bring upstream's.
//   - A lost connection is tried again each 2 s at least; upstream's wait grows to two minutes.
//   - A client that cannot connect is closed, and a resource that cannot be built leaves nothing behind.
//   - ETCD_CLIENT_DEBUG is obeyed.
package apiserver
