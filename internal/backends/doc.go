// Package backends runs what package decorator promises over backends that speak
// etcd's protocol: [Run] records clients of several API servers' storages, and lets
// package linear judge it. Its tests do so over each kind of internal/fdbshim, good and
// bad, and run package decoratortest over two of the good kinds; with -all over each.
package backends
