// Package backends runs what package decorator promises over backends that speak
// etcd's protocol: [Run] records clients of several API servers' storages, and lets
// package linear judge it. Its tests do so, and run package decoratortest, over each
// kind of internal/fdbshim, good and bad.
package backends
