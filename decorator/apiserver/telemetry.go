package apiserver

import (
	"errors"
	"sync"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/component-base/metrics/legacyregistry"
)

// clientMetrics answers what counts the calls of our etcd clients (grpc_client_started_total and its siblings). The API
// server's storage factory, which every API server links, registers the same families in the same registry when it is
// initialized. A family can be registered once, so the registry answers with the collector that is there, and our calls
// are counted by it, beside the factory's own. Where there is none, ours takes the place.
var clientMetrics = sync.OnceValue(func() *grpcprom.ClientMetrics {
	return registerClientMetrics(legacyregistry.Registerer())
})

func registerClientMetrics(reg prometheus.Registerer) *grpcprom.ClientMetrics {
	own := grpcprom.NewClientMetrics()
	err := reg.Register(own)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if theirs, ok := already.ExistingCollector.(*grpcprom.ClientMetrics); ok {
			return theirs
		}
	}
	// Registered, or (the families belong to a collector of another type) counted for nobody: a missing metric is no
	// reason to refuse an API server its storage.
	return own
}

// clientLogger answers the logger that all etcd clients share: one for each client would cost a fifth of the memory of an
// API server with hundreds of custom resources (kubernetes#111476). ETCD_CLIENT_DEBUG sets its level by the rules of
// etcd's client; upstream's storage factory reads the same variable but stays at "info" whatever it says.
var clientLogger = sync.OnceValue(func() *zap.Logger {
	logger, err := logutil.CreateDefaultZapLogger(clientv3.ClientLogLevel())
	if err != nil {
		return zap.NewNop()
	}
	return logger.Named("etcd-client")
})
