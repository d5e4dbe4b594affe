// Package aggregator holds no code: its test runs the example API server behind
// the real k8s.io/kube-aggregator, with the APIServices, the Service and the flags
// of examples/apiserver/manifests.
package aggregator
