// Package faultlab runs several API servers' storages over an etcd of three members in
// processes of their own, drives real faults between and into them, and lets package
// linear check every answer against etcd's own history.
//
// The API servers are stacks in one process. They share nothing that a read goes
// through: each has its etcd clients, its doors to etcd, its cache, and (with rvfloor)
// its own apiserver.Backends. The first knows all members; each of the others knows one,
// as an API server beside its etcd does, and the watch of the second is late. The third
// answers GETs from its cache.
//
// Each has two resources. What is judged is mostly the first; faults make the second one
// unreadable, for a while or by one object, and what is read of it is judged apart: it may
// fail, and is never wrong. All judged calls are made by one user; another one is a fault.
//
// What is drawn by chance (the order of the faults, whom they hit, what clients do) is
// drawn from the seed. How it interleaves is not.
package faultlab
