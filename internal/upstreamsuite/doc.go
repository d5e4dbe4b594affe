// Package upstreamsuite runs Kubernetes' own conformance suite for storage.Interface,
// k8s.io/apiserver/pkg/storage/testing, over any store that stands in front of a watch cache.
//
// Upstream exports the single checks and keeps to itself which of them hold for a cached store, under which feature gates,
// and with which hooks into the Cacher's insides. This package holds that knowledge and needs no such hook: a
// compaction is a real compaction of an embedded etcd, and the cache is brought to forget its history by cutting
// its connection until etcd has compacted what it would go on from.
//
// [Run] is the suite and [Benchmark] the three benchmarks that upstream runs over its cached store. A test gives a function
// that builds the store under test on a cluster of its own ([StartEtcd], [NewRaw] and [NewCache] are the parts
// upstream's set-up is made of). A test of this package runs it over the plain CacheDelegator, as a control, and another reads
// upstream's sources and fails when a check of theirs is neither run here nor left out by upstream, too.
package upstreamsuite
