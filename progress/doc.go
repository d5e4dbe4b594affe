// Package progress brings a cache's watch up to a revision with as few requests
// to the backend as can be.
//
// A Coordinator stands for one backend and bounds what all its caches ask of it.
// A Stream stands for the watch of one cache: callers wait on it until the cache
// has applied a revision, and it decides when to ask for progress (a kick). Who
// waits is in stream.go, who asks and when in kick.go and coordinator.go.
//
// A Watcher is a clientv3.Watcher that gives each watch of a cache a gRPC stream
// of its own. etcd answers a progress request to every watch of a stream, and on
// a shared stream the answer can reach a new watch before its catch-up events
// (etcd-io/etcd#15220, and measured on 3.7), which would let a cache pass a
// revision without the events below it. Between clientv3 and the server each stream
// is checked (checked.go), and what comes on that of a cache's watch is told past
// clientv3 (line.go).
package progress
