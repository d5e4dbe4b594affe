package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func startEtcd(ctx context.Context, o Options) (endpoints []string, stop func() error, err error) {
	if len(o.EtcdServers) > 0 {
		return o.EtcdServers, func() error { return nil }, nil
	}
	dir := o.DataDir
	remove := func() error { return nil }
	if dir == "" {
		dir, err = os.MkdirTemp("", "rvfloor-apiserver-")
		if err != nil {
			return nil, nil, err
		}
		remove = func() error { return os.RemoveAll(dir) }
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	loop := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls = []url.URL{loop}
	cfg.AdvertiseClientUrls = []url.URL{loop}
	cfg.ListenPeerUrls = []url.URL{loop}
	cfg.AdvertisePeerUrls = []url.URL{loop}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	stop = func() error {
		e.Close()
		return remove()
	}
	select {
	case <-e.Server.ReadyNotify():
	case <-ctx.Done():
		return nil, nil, errors.Join(context.Cause(ctx), stop())
	case <-time.After(10 * time.Second):
		return nil, nil, errors.Join(fmt.Errorf("--data-dir %s: etcd did not become ready", dir), stop())
	}
	return []string{"http://" + e.Clients[0].Addr().String()}, stop, nil
}
