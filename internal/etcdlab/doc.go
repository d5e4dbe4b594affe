// Package etcdlab runs etcd for tests, benches and examples, and lets them see and
// disturb the traffic. [Start] gives one or three members inside the process,
// [StartProcesses] the same as child processes, which can also be frozen, killed,
// restarted and restored. [Counters] counts a client's RPCs. A [Proxy] cuts, holds
// or slows a client's links, [WatchDelay] makes its watches late and nothing else;
// [Processes.Link] disturbs what one member says to another, and [Cluster.CutPeer]
// partitions a member from the others.
//
// It does not import testing, so programs may use it; tests start it with [Run],
// [RunProcesses] and [Connect], which take the little of *testing.T that they need.
package etcdlab
