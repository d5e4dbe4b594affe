// Package operations holds the tests of docs/operations.md: its tables of what each call
// answers under each fault, and of what one fault does to all else, are produced, over HTTP
// and a real etcd, and compared.
package operations
