package memstorage

import (
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

// SupportProgress makes upstream's checker say that the backend answers progress
// requests, without which a Cacher sends consistent reads to the storage. The
// checker belongs to the process and learns from etcd clients alone. It is to be
// called before any cache is built, and not while another goroutine uses one.
func SupportProgress() {
	feature.DefaultFeatureSupportChecker = supported{feature.DefaultFeatureSupportChecker}
}

// supported embeds upstream's interface because a method of it names a type that is
// not exported.
type supported struct{ feature.FeatureSupportChecker }

// Supports adds progress requests to what the checker knows.
func (s supported) Supports(f storage.Feature) bool {
	return f == storage.RequestWatchProgress || s.FeatureSupportChecker.Supports(f)
}
