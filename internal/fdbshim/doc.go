// Package fdbshim is a backend for tests that speaks etcd's protocol and is not
// etcd: a database in memory, and any number of processes over it. As it comes it
// does what shims over FoundationDB do: a read's revision is a read version, which
// runs on while nobody writes, while progress stands still at the last write until
// the next; and revisions have gaps. [Config] has the other kinds of databases, and
// [Faults] each way in which shims were seen to go wrong.
//
// A [Store] is the database. [Serve] is one process over it, which clients reach at
// [Server.Endpoint].
//
// Of etcd's API it has what an API server, its compactor, clientv3's leases and
// freshness.Sentinel use.
package fdbshim
