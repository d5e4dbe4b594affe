// Package watchcache puts upstream's watch cache and a decorator.Store over a raw storage, with
// what stands between and around them, in the order in which that is sound: a Feed, the Cacher
// that watches through it, a CacheDelegator, the Store, and upstream's consistency checker, whose
// verdict the Store hears. What it returns is closed in the reverse order.
//
// Over etcd the raw storage has to be made with a client that has a progress.Watcher: see package
// decorator. All else that can be wired wrong by hand cannot be said here, or is refused.
package watchcache
