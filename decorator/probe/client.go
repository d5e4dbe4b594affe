package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator/strategy"
)

const (
	// patientLimit lets an etcd be slow: a probe is some 160 calls one after the other. Reads
	// do not wait for it.
	patientLimit = time.Minute
	// dialTime is how long another connection may take to answer.
	dialTime = time.Second
)

// errUnsure reports a probe that ran to its end and could not tell.
var errUnsure = errors.New("the backend did not do enough in time to be judged")

// For returns a Config.Probe for the backend of one client, whose fields are set but for the
// Watcher, which is not used. It writes under prefix: see PrefixFor. Package decorator uses it by
// default where the Source is a freshness.Sentinel.
//
// The second client that a probe needs has a connection of its own where the endpoints can be
// dialed without TLS. Where not, what differs between connections or members goes unseen, as
// the old floors of kine on NATS do: give a Config.Probe that calls Observe with a client for
// each member.
func For(client *clientv3.Client, prefix string) func(context.Context) (strategy.Properties, error) {
	return func(ctx context.Context) (strategy.Properties, error) {
		second := another(ctx, client)
		if second != client {
			defer second.Close()
		}
		report, err := Observe(ctx, Config{Clients: []*clientv3.Client{client, second}, Prefix: prefix, Limit: patientLimit})
		if err != nil {
			return strategy.Properties{}, err
		}
		return report.Judged()
	}
}

// Judged returns what a decorator.Prober does: what was seen, and an error where another try
// may see more.
func (r Report) Judged() (strategy.Properties, error) {
	switch {
	case r.Err == nil && r.Safe() == strategy.VerdictUnsure:
		return r.Properties, errUnsure
	case r.Err != nil && !r.Refused() && r.Properties == (strategy.Properties{}):
		return r.Properties, fmt.Errorf("%w: %w", strategy.ErrUnreachable, r.Err)
	}
	return r.Properties, r.Err
}

// another returns a client with a connection of its own, or the same one.
func another(ctx context.Context, client *clientv3.Client) *clientv3.Client {
	for _, endpoint := range client.Endpoints() {
		if strings.HasPrefix(endpoint, "https:") || strings.HasPrefix(endpoint, "unixs:") {
			return client
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	// No DialTimeout: New would block for it where there is a user to be authenticated.
	second, err := clientv3.New(clientv3.Config{Context: context.WithoutCancel(ctx), Endpoints: client.Endpoints(),
		Username: client.Username, Password: client.Password, DialTimeout: dialTime, Logger: client.GetLogger()})
	if err != nil {
		return client
	}
	if _, err := second.Get(ctx, "rvfloor"); err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		_ = second.Close()
		return client
	}
	return second
}
