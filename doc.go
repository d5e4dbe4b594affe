// Package rvfloor is the root of a library that puts a verified floor under the
// resourceVersion of every read that an API server answers from a cache. The
// packages to import are decorator (for any storage.Interface) and
// decorator/apiserver (for API servers built on k8s.io/apiserver).
package rvfloor
