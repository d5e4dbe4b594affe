// Package e2e holds the tests that run the whole of rvfloor over embedded etcd
// beside the stock API server storage, as the control that shows each test to bite.
package e2e
