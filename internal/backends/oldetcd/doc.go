// Package oldetcd has the tests of what rvfloor promises over Debian's etcd 3.4.23, a real
// process, whose progress overtakes events. They are a process of their own: what upstream
// learns of a backend's features it learns once per process, and of this one it learns that
// it must not be asked for progress.
package oldetcd
