package sides

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// Lab is one etcd member with a port for each side, and the writer's client, which
// has an address of its own and is not counted.
type Lab struct {
	// Ports are as many as Start was asked for, one for each side.
	Ports []*Port

	cluster *etcdlab.Cluster
	client  *clientv3.Client
}

// Start starts an empty etcd for n sides. The logger gets etcd's log; nil drops it.
func Start(ctx context.Context, n int, logger *zap.Logger) (*Lab, error) {
	l := &Lab{}
	var listening error
	cluster, err := etcdlab.Start(etcdlab.Config{Logger: logger, Tune: func(_ int, cfg *embed.Config) {
		listening = l.listen(n, cfg) // once for each attempt of Start
	}})
	if err != nil {
		return nil, errors.Join(err, listening)
	}
	l.cluster = cluster
	if listening != nil {
		return nil, errors.Join(listening, cluster.Close())
	}
	if l.client, err = cluster.Client(ctx, etcdlab.ClientConfig{}); err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return l, nil
}

// listen adds a port for each side.
func (l *Lab) listen(n int, cfg *embed.Config) error {
	hosts, err := freeHosts(n)
	if err != nil {
		return err
	}
	l.Ports = nil
	byHost := ports{}
	for _, host := range hosts {
		u := url.URL{Scheme: "http", Host: host}
		p := &Port{Endpoint: u.String()}
		byHost[host] = p
		cfg.ListenClientUrls = append(cfg.ListenClientUrls, u)
		l.Ports = append(l.Ports, p)
	}
	cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions,
		grpc.StatsHandler(byHost), grpc.ChainStreamInterceptor(gateWatches))
	return nil
}

// freeHosts names n loopback addresses that were free a moment ago: etcd opens
// its listeners itself, and etcdlab tries again when somebody was quicker.
func freeHosts(n int) ([]string, error) {
	hosts := make([]string, n)
	for i := range hosts {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("sides: an address for a side: %w", err)
		}
		defer listener.Close() // all stay open until all are found, or two might be the same
		hosts[i] = listener.Addr().String()
	}
	return hosts, nil
}

// Close stops etcd. Sides are their owners' to close, before, and watches that are
// held back theirs to release.
func (l *Lab) Close() error {
	return errors.Join(l.client.Close(), l.cluster.Close())
}
