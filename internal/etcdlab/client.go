package etcdlab

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// ClientConfig says what [Cluster.Client] makes. The zero value is a client of all
// members, not counted.
type ClientConfig struct {
	// Members are the indexes of the members to talk to; none means all.
	Members []int
	// Counters counts what the client sends; nil means nobody counts.
	Counters *Counters
	// DialOptions are appended to the client's own.
	DialOptions []grpc.DialOption
}

// Client makes a client, which its caller closes. ctx bounds the client's life, not
// its first connection: that is made by the first call. It reconnects within
// fractions of a second, where gRPC's defaults would let a healed link idle for
// seconds. Etcd's own errors come from the calls.
func (c *Cluster) Client(ctx context.Context, cfg ClientConfig) (*clientv3.Client, error) {
	return newClient(ctx, c.endpoints, cfg)
}

func newClient(ctx context.Context, all []string, cfg ClientConfig) (*clientv3.Client, error) {
	endpoints := slices.Clone(all)
	if len(cfg.Members) > 0 {
		endpoints = nil
		for _, i := range cfg.Members {
			endpoints = append(endpoints, all[i])
		}
	}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond},
		MinConnectTimeout: 5 * time.Second,
	})}
	if cfg.Counters != nil {
		options = append(options, cfg.Counters.DialOptions()...)
	}
	return clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		Context:     ctx,
		DialTimeout: 5 * time.Second,
		// As often as gRPC lets a client ask; a held link is given up after 15 s.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		DialOptions:          append(options, cfg.DialOptions...),
		Logger:               zap.NewNop(),
	})
}
