// Package demo is the API that the example server serves: group
// demo.rvfloor.dev, version v1, with two namespaced kinds. A Widget has a spec
// and a status; a Ticket ends by itself after spec.ttlSeconds. Tickets are here
// because the API server lets many of them share one etcd lease, and a lease
// that ends removes all its objects in ONE revision: the case in which a watch
// cache can look current and still hold objects that are gone.
//
// There is one version, so its types serve as the internal ones as well and no
// conversion exists.
package demo
