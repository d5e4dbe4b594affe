// Package freshness reads floors: revisions of a backend below which an answer
// would be stale.
//
// A floor F was read linearizably, by a read that was SENT after its caller had
// arrived. So no write that the backend acknowledged before the caller arrived
// is above F, whoever made it: what reflects F reflects them all. Floors shares
// such reads among its callers without breaking that (see the join rule in
// internal/joinnext), and fails closed: where no floor can be read, or where
// the backend's history went back, it answers with an error and never with
// something older.
//
// Next gives that promise. Within trades a bounded age for fewer reads. Nothing
// here knows of Kubernetes: Sentinel reads floors from etcd, and SourceFunc
// makes a source of any function.
package freshness
