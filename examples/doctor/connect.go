package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// connectTime is how long each member has to answer at all.
const connectTime = 5 * time.Second

// patient is a backend that answers.
type patient struct {
	clients []*clientv3.Client
	claims  []string // the versions that they say they are
}

// connect makes a client for each member, two where there is one: what the one has written
// the other has to read. The error says which does not answer, and why.
func (o options) connect(ctx context.Context) (*patient, error) {
	cfg := clientv3.Config{Username: o.user, Password: o.password, DialTimeout: connectTime, Context: ctx, Logger: zap.NewNop()}
	if o.caCert != "" || o.cert != "" {
		info := transport.TLSInfo{TrustedCAFile: o.caCert, CertFile: o.cert, KeyFile: o.key}
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("--cacert, --cert, --key: %w", err)
		}
		cfg.TLS = tls
	}
	endpoints := o.endpoints
	if len(endpoints) == 1 {
		endpoints = []string{endpoints[0], endpoints[0]}
	}
	p := &patient{}
	for _, endpoint := range endpoints {
		cfg.Endpoints = []string{endpoint}
		client, err := clientv3.New(cfg)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("%s: %w", endpoint, err)
		}
		p.clients = append(p.clients, client)
		version, err := ask(ctx, client, endpoint)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("%s cannot be reached: %w", endpoint, err)
		}
		if !slices.Contains(p.claims, version) {
			p.claims = append(p.claims, version)
		}
	}
	return p, nil
}

// ask is the version that a member says it is. One that answers and does not know the
// question is there, too.
func ask(ctx context.Context, client *clientv3.Client, endpoint string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	resp, err := client.Status(ctx, endpoint)
	switch status.Code(err) {
	case codes.OK:
		return strings.TrimSpace(resp.Version), nil
	case codes.Unimplemented, codes.PermissionDenied:
		return "unknown", nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer in %v; is the address right, and whether it is http or https?", connectTime)
	}
	return "", err
}

func (p *patient) close() {
	for _, client := range p.clients {
		client.Close()
	}
}
