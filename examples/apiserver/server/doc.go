// Package server assembles the example API server: embedded etcd (or one that
// runs already), a generic API server over it that serves package demo, and in
// between rvfloor, put there by one line (see storage.go). Start is all it takes, so
// tests and other programs can run a real API server inside their own process.
package server
