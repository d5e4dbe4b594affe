// Package probe decides what an etcd-speaking backend can be relied on for, by
// watching it: not by its version, nor by what it says of itself. It writes, reads
// and watches through two clients or more, and writes nothing outside one prefix.
//
// What it finds is a list of properties, each with a verdict and the numbers behind
// it, and the strategies that are sound on such a backend. API servers run it at
// their start (decorator/apiserver), people by examples/doctor, and the authors of
// shims in a test of their own:
//
//	probe.Run(t, probe.Config{Clients: []*clientv3.Client{one, another}})
//
// A fault that shows by chance can be missed. So each finding says how many trials
// it stands on, and how likely they were to miss a fault that shows in one trial of
// twenty.
//
// Only the transactions of Kubernetes' etcd3 storage are sent, which kine and its
// like know: create a key if its mod revision is 0; update or delete it at a mod
// revision.
package probe
