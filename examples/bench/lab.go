package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// lab is one etcd member with an address for each side, and the writer's client,
// which has an address of its own and is not counted.
type lab struct {
	cluster   *etcdlab.Cluster
	client    *clientv3.Client
	endpoints []string // index i belongs to side i
	meters    []*meter // likewise

	goroutines int // of the process, when all sides were open
}

func startLab(ctx context.Context, sides int) (*lab, error) {
	l := &lab{}
	var listening error
	cluster, err := etcdlab.Start(etcdlab.Config{Tune: func(_ int, cfg *embed.Config) {
		listening = l.listen(sides, cfg) // once for each attempt of Start
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

// listen adds an address for each side, and what counts there.
func (l *lab) listen(sides int, cfg *embed.Config) error {
	hosts, err := freeHosts(sides)
	if err != nil {
		return err
	}
	l.endpoints, l.meters = nil, nil
	handler := meters{}
	for _, host := range hosts {
		m := &meter{}
		handler[host] = m
		u := url.URL{Scheme: "http", Host: host}
		cfg.ListenClientUrls = append(cfg.ListenClientUrls, u)
		l.endpoints, l.meters = append(l.endpoints, u.String()), append(l.meters, m)
	}
	cfg.GRPCAdditionalServerOptions = append(cfg.GRPCAdditionalServerOptions, grpc.StatsHandler(handler))
	return nil
}

// freeHosts names n loopback addresses that were free a moment ago: etcd opens
// its listeners itself, and etcdlab tries again when somebody was quicker.
func freeHosts(n int) ([]string, error) {
	hosts := make([]string, n)
	for i := range hosts {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("bench: an address for a side: %w", err)
		}
		defer listener.Close() // all stay open until all are found, or two might be the same
		hosts[i] = listener.Addr().String()
	}
	return hosts, nil
}

func (l *lab) close() error {
	return errors.Join(l.client.Close(), l.cluster.Close())
}
