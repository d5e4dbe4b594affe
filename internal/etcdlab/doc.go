// Package etcdlab runs etcd inside the process for tests, benches and examples,
// and lets them see and disturb the traffic: [Start] gives one or three members,
// [Counters] counts a client's RPCs, [Proxy] cuts, holds or slows its links,
// [WatchDelay] makes its watches late and nothing else, and [Cluster.CutPeer]
// partitions a member from the others.
//
// It does not import testing, so programs may use it; tests start it with [Run]
// and [Connect], which take the little of *testing.T that they need.
//
// Members embedded in one process can be cut off, but neither frozen nor killed
// apart from each other: whoever needs that starts child processes.
package etcdlab
