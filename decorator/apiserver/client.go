package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	etcdtransport "go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/tracing"
)

// The times are upstream's: an operator who knows how a stock API server notices a dead etcd member must find the
// same here, and a test compares them with upstream's.
const (
	// dialTimeout bounds the wait for the first connection. Shorter ones fail on slow machines under load, where the
	// TLS handshake alone takes seconds (kubernetes#64649).
	dialTimeout = 20 * time.Second
	// A connection that carries a call and has been silent for keepaliveTime is pinged, and dropped when the answer
	// takes longer than keepaliveTimeout: a dead member is left after 40 s at most. gRPC servers may refuse clients
	// that ping more often than each 10 s.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
	// maxReconnect is the longest time between tries to connect again. Not upstream's, which is gRPC's two minutes: etcd that
	// was gone for some minutes, as for a restore, would go on to be gone for as long.
	maxReconnect = 2 * time.Second
)

// dial opens a client for the transport and returns it when its connection is ready, as the API server's own storage
// factory does. It fails after dialTimeout, or when ctx ends, with ctx's cause. The extra options come after all others:
// tests count calls with them.
//
// A certificate, its key and the CA come from files. The pair is read again at each handshake, so a rotated certificate
// is presented with the next connection; the CA is read once.
func dial(ctx context.Context, tc storagebackend.TransportConfig, extra ...grpc.DialOption) (*clientv3.Client, error) {
	return dialWith(ctx, tc, append(observed(tc), extra...)...)
}

func dialWith(ctx context.Context, tc storagebackend.TransportConfig, options ...grpc.DialOption) (*clientv3.Client, error) {
	cfg, err := clientConfig(tc)
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, options...)
}

// dialLeaving is dialWith for a client that leaves members which do not answer.
func dialLeaving(ctx context.Context, tc storagebackend.TransportConfig, options ...grpc.DialOption) (*clientv3.Client, error) {
	cfg, err := clientConfig(tc)
	if err != nil {
		return nil, err
	}
	dialer, err := egressDialer(tc)
	if err != nil {
		return nil, err
	}
	return connect(ctx, cfg, append(newMembers(tc.ServerList, dialer).options(), options...)...)
}

func connect(ctx context.Context, cfg clientv3.Config, options ...grpc.DialOption) (*clientv3.Client, error) {
	cfg.DialOptions = append(cfg.DialOptions, options...)
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := waitReady(ctx, client); err != nil {
		_ = client.Close() // what matters is why it never became ready
		return nil, err
	}
	return client, nil
}

// observed is how upstream's clients are measured and traced.
func observed(tc storagebackend.TransportConfig) []grpc.DialOption {
	metrics := clientMetrics()
	return []grpc.DialOption{
		// Chained, not set: etcd's own interceptors (retry and backoff) stand before them, so each attempt is counted.
		grpc.WithChainUnaryInterceptor(metrics.UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(metrics.StreamClientInterceptor()),
		// Also where nothing is recorded: the handler carries the caller's trace context to etcd.
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithMessageEvents(otelgrpc.ReceivedEvents, otelgrpc.SentEvents),
			otelgrpc.WithPropagators(tracing.Propagators()),
			otelgrpc.WithTracerProvider(tc.TracerProvider),
		)),
	}
}

// clientConfig says how a transport is dialed.
func clientConfig(tc storagebackend.TransportConfig) (clientv3.Config, error) {
	cfg := clientv3.Config{
		Endpoints:            tc.ServerList,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		Logger:               clientLogger(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnect},
			MinConnectTimeout: dialTimeout,
		})},
	}
	// No file at all means plain text: any TLS config, even an empty one, would make the client use TLS for endpoints
	// without a scheme.
	if tc.CertFile != "" || tc.KeyFile != "" || tc.TrustedCAFile != "" {
		info := etcdtransport.TLSInfo{CertFile: tc.CertFile, KeyFile: tc.KeyFile, TrustedCAFile: tc.TrustedCAFile}
		tlsConfig, err := info.ClientConfig()
		if err != nil {
			return clientv3.Config{}, fmt.Errorf("TLS files of the etcd transport: %w", err)
		}
		cfg.TLS = tlsConfig
	}

	dialer, err := egressDialer(tc)
	if err != nil {
		return clientv3.Config{}, err
	}
	if dialer != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(dialer))
	}
	return cfg, nil
}

// egressDialer is nil where the egress configuration says nothing about etcd, which is then dialed directly.
func egressDialer(tc storagebackend.TransportConfig) (func(context.Context, string) (net.Conn, error), error) {
	if tc.EgressLookup == nil {
		return nil, nil
	}
	egress, err := tc.EgressLookup(egressselector.Etcd.AsNetworkContext())
	if err != nil {
		return nil, fmt.Errorf("egress dialer for etcd: %w", err)
	}
	if egress == nil {
		return nil, nil
	}
	return contextDialer(egress), nil
}

// contextDialer adapts an egress dialer to gRPC: the network is always TCP, and an address that is still a URL loses all
// but its host.
func contextDialer(egress utilnet.DialFunc) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if strings.Contains(addr, "//") {
			u, err := url.Parse(addr)
			if err != nil {
				return nil, err
			}
			addr = u.Host
		}
		return egress(ctx, "tcp", addr)
	}
}

// waitReady waits until the client's connection is ready, for dialTimeout at most, and keeps it from idling meanwhile.
func waitReady(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn := client.ActiveConnection()
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection to etcd at %s: %w", strings.Join(client.Endpoints(), ","), context.Cause(ctx))
		}
	}
}
