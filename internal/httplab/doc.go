// Package httplab serves the example pods of k8s.io/apiserver from any
// storage.Interface over HTTP, with the generic API server's own endpoint handlers
// and its default chain of filters, for tests of what a client sees: statuses,
// Retry-After, Warning headers, audit events.
package httplab
