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
//	backend, err := decorator.NewBackend(decorator.Config{
//		Source: freshness.NewSentinel(client.Client, "/registry/rvfloor/sentinel"),
//	})
//	client.Client.Watcher = progress.NewWatcher(client.Client) // before etcd3.New
//	raw, err := etcd3.New(client, ...)
//	res := decorator.Resource{GroupResource: gr, Prefix: prefix, NewList: newList, Raw: raw, SharesItems: true, SharesLists: true}
//	res.Feed, err = backend.Feed(raw, res)
//	cache, err := cacher.NewCacherFromConfig(cacher.Config{Storage: res.Feed, ...})
//	store, err := backend.Wrap(cacher.NewCacheDelegator(cache, raw), res)
//
// API servers need none of it: see package decorator/apiserver.
package decorator
