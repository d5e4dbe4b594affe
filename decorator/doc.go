// Package decorator wraps any storage.Interface that answers from a cache, so
// that what it answers is never older than the moment of the call.
//
// # The promise
//
// Let a read enter a Store at time t and ask for the newest data (resourceVersion
// unset; or "0" under the default policy). The answer reflects every write that
// the backend acknowledged before t, whichever API server took that write; or the
// read fails with an error that says why and when to retry. It reflects whole
// revisions: where one revision changed many objects (a lease that ends, a
// transaction), all of it or none.
//
// # What is not promised
//
// Answers on the minority side of a partition: resourceVersion "0" fails there by
// default, where the stock API server answers with old data (ZeroVersion "AsIs"
// gives the stock behaviour). Exact-version reads and continue tokens beyond what
// the inner storage promises. How soon watch events arrive. Clients that hold a
// revision from before a restore, once the new history has passed it. Whole
// revisions on a Store without a Feed.
//
// # After a restore
//
// A backend whose history went back (a restore, another cluster) is known by a revision
// below one seen, the cluster's id, a member's raft term, and the chain of links at the
// sentinel's key, which Config.Pulse makes longer. From then on no Store answers from
// its cache, and writes begin with what is stored; they do so too from when a
// connection was lost until a floor has proved that the history is the same. A Healing
// builds cache and Store anew, also where upstream's consistency checker has found a
// cache to be wrong. What is not noticed: a restore that lost no link of the chain, to
// which enough was written since, and whose ids and terms tell nothing.
//
// # Wiring
//
//	client.Client.Watcher = progress.NewWatcher(client.Client) // before a storage is made with it
//	backend, err := decorator.NewBackend(decorator.Config{
//		Source: freshness.NewSentinel(client.Client, "/registry/rvfloor/sentinel"),
//	})
//	newRaw := func() (storage.Interface, func(), error) {
//		raw, err := etcd3.New(client, ...)
//		return raw, raw.Close, err
//	}
//	store, err := watchcache.Heal(backend, newRaw, cacher.Config{...}, watchcache.Options{SharesLists: true})
//
// The Backend looks at what its etcd can be relied on for before a cache answers, and notices
// that a connection was lost; the Healing goes on after a restore. For a cache that is no
// Cacher, Feed, Wrap and Heal are to be put together by hand. What is wired wrong there is
// refused, or told of as a breach and answered past the cache: docs/operations.md has a table.
//
// API servers need none of it: see package decorator/apiserver.
package decorator
