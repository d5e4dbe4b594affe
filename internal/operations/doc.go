// Package operations holds the tests of docs/operations.md: its table of what each
// call answers under each fault is produced, over HTTP and a real etcd, and compared.
package operations
