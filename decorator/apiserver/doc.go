// Package apiserver wires verified reads into an API server: it builds what the API server would build for each resource
// (etcd client, storage, watch cache), with a decorator.Feed behind the cache and a decorator.Store in front of it.
package apiserver
