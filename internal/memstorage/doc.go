// Package memstorage is a storage.Interface in memory, for tests: what etcd3's
// store does for a cache, without etcd, and with switches for what a real backend
// does only now and then.
//
// A Backend is one revision space; any number of Storages share it, of different
// prefixes or of the same one, as API servers share an etcd. Watches run in
// goroutines of their own and wait on channels alone, so that all of it works
// inside a testing/synctest bubble. Nothing here imports testing.
//
// What it leaves out: a time to live is refused, suggestions of cached objects are
// ignored (every write looks at the stored object), and nothing is serialized:
// objects are copied.
package memstorage
