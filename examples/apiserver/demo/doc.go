// Package demo is what the example server serves: two API groups, each with a
// version of its own, so that discovery, selectors, tables and subresources have
// something to show.
//
//	demo.rvfloor.dev/v1         widgets (with a status), tickets; namespaced
//	plant.rvfloor.dev/v1alpha1  machines (with a status); cluster-wide
//
// A Ticket ends by itself after spec.ttlSeconds. Tickets are here because the API
// server lets many of them share one etcd lease, and a lease that ends removes
// all its objects in ONE revision: the case in which a watch cache can look
// current and still hold objects that are gone.
//
// Each group has one version, so its types serve as the internal ones as well
// and no conversion exists.
package demo
