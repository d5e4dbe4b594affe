package apiserver

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

const rangeMethod = "/etcdserverpb.KV/Range"

// get makes one call that the recorder refuses.
func get(t *testing.T, ctx context.Context, s storage.Interface) {
	t.Helper()
	require.Error(t, s.Get(ctx, podPrefix+"/ns/a", storage.GetOptions{}, &example.Pod{}))
}

// What a server sees of our client is what it sees of the storage factory's.
func TestServerSeesTheSameClient(t *testing.T) {
	ca := newAuthority(t)
	server := startRecorder(t, ca.serverConfig(t))
	plain := startRecorder(t, nil)
	certFile, keyFile := ca.issue(t, "client", "api-server")
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), span)

	// In this order: upstream's feature checker polls endpoints that are new to it and do not
	// answer with one backoff, unguarded, which is a data race where one client has two.
	for _, test := range []struct {
		name      string
		endpoints []string
	}{
		{"TLS", []string{"https://" + server.addr}},
		{"TLS without scheme", []string{server.addr}},
		{"two endpoints", []string{"https://" + server.addr, "https://localhost:1"}},
		{"plain", []string{"http://" + plain.addr}},
	} {
		name, endpoints := test.name, test.endpoints
		t.Run(name, func(t *testing.T) {
			seen := map[string]call{}
			for _, opener := range []rawOpener{upstream, ours()} {
				cfg := storageConfig(endpoints...)
				at := plain
				if name != "plain" {
					cfg.Transport.CertFile, cfg.Transport.KeyFile, cfg.Transport.TrustedCAFile = certFile, keyFile, ca.caFile()
					at = server
				}
				get(t, ctx, opener.mustOpen(t, cfg))
				c, ok := at.last(rangeMethod)
				require.True(t, ok)
				seen[opener.name] = c
			}
			assert.Equal(t, seen["upstream"], seen["ours"])
			assert.Contains(t, seen["ours"].Traceparent, span.TraceID().String())
			if name != "plain" {
				assert.Equal(t, "api-server", seen["ours"].ClientCN)
			}
		})
	}
}

// A rotated client certificate is presented with the next connection.
func TestRotatedClientCertificate(t *testing.T) {
	for _, newOpener := range []func() rawOpener{func() rawOpener { return upstream }, func() rawOpener { return ours() }} {
		opener := newOpener()
		t.Run(opener.name, func(t *testing.T) {
			ca := newAuthority(t)
			server := startRecorder(t, ca.serverConfig(t))
			cfg := storageConfig("https://" + server.addr)
			cfg.Transport.TrustedCAFile = ca.caFile()
			cfg.Transport.CertFile, cfg.Transport.KeyFile = ca.issue(t, "client", "first")
			var egress dialed
			cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return egress.dial, nil }
			s := opener.mustOpen(t, cfg)

			get(t, t.Context(), s)
			before, _ := server.last(rangeMethod)
			assert.Equal(t, "first", before.ClientCN)

			ca.issue(t, "client", "second")
			get(t, t.Context(), s)
			same, _ := server.last(rangeMethod)
			assert.Equal(t, "first", same.ClientCN, "a connection keeps the certificate that it was opened with")

			egress.cut()
			get(t, t.Context(), s)
			after, _ := server.last(rangeMethod)
			assert.Equal(t, "second", after.ClientCN)
		})
	}
}

// The egress dialer is looked up for etcd and asked for the same addresses.
func TestEgressDialer(t *testing.T) {
	server := startRecorder(t, nil)
	for _, endpoint := range []string{"http://" + server.addr, server.addr} {
		asked := map[string]map[string]bool{}
		for _, opener := range []rawOpener{upstream, ours()} {
			var egress dialed
			cfg := storageConfig(endpoint)
			cfg.Transport.EgressLookup = func(network egressselector.NetworkContext) (utilnet.DialFunc, error) {
				assert.Equal(t, egressselector.Etcd.AsNetworkContext(), network)
				return egress.dial, nil
			}
			get(t, t.Context(), opener.mustOpen(t, cfg))
			asked[opener.name] = egress.distinct()
		}
		assert.Equal(t, map[string]bool{"tcp " + server.addr: true}, asked["ours"])
		assert.Equal(t, asked["upstream"], asked["ours"])
	}
}

// A gRPC client of etcd may hand a URL to a dialer, which wants an address.
func TestEgressDialerGetsAddresses(t *testing.T) {
	var got []string
	dialer := contextDialer(func(_ context.Context, network, addr string) (net.Conn, error) {
		got = append(got, network+" "+addr)
		return nil, nil
	})
	for _, addr := range []string{"https://etcd-0:2379", "etcd-0:2379"} {
		_, err := dialer(t.Context(), addr)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"tcp etcd-0:2379", "tcp etcd-0:2379"}, got)
	_, err := dialer(t.Context(), "https://[")
	assert.Error(t, err)
}

// An egress configuration that says nothing about etcd means that it is dialed directly.
func TestEgressDialerMayBeNil(t *testing.T) {
	server := startRecorder(t, nil)
	cfg := storageConfig(server.addr)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return nil, nil }
	for _, opener := range []rawOpener{upstream, ours()} {
		get(t, t.Context(), opener.mustOpen(t, cfg))
	}
}

// Both refuse the same transports and storages, and leave nothing behind (upstream's refusals may).
func TestRefusals(t *testing.T) {
	ca := newAuthority(t)
	server := startRecorder(t, nil)
	certFile, keyFile := ca.issue(t, "client", "client")
	lookupFailed := errors.New("no such network")
	for name, spoil := range map[string]func(*storagebackend.ConfigForResource){
		"no endpoint":             func(c *storagebackend.ConfigForResource) { c.Transport.ServerList = nil },
		"certificate without key": func(c *storagebackend.ConfigForResource) { c.Transport.CertFile = certFile },
		"key without certificate": func(c *storagebackend.ConfigForResource) { c.Transport.KeyFile = keyFile },
		"no such certificate": func(c *storagebackend.ConfigForResource) {
			c.Transport.CertFile, c.Transport.KeyFile = "none.crt", "none.key"
		},
		"no such CA": func(c *storagebackend.ConfigForResource) { c.Transport.TrustedCAFile = "none.crt" },
		"egress lookup fails": func(c *storagebackend.ConfigForResource) {
			c.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return nil, lookupFailed }
		},
		"etcd2":        func(c *storagebackend.ConfigForResource) { c.Type = "etcd2" },
		"unknown type": func(c *storagebackend.ConfigForResource) { c.Type = "etcd4" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := storageConfig(server.addr)
			spoil(cfg)
			_, _, err := upstream.open(cfg)
			require.Error(t, err)
			before := goleak.IgnoreCurrent()
			_, _, err = ours().open(cfg)
			require.Error(t, err)
			goleak.VerifyNone(t, before)
			if name == "egress lookup fails" {
				assert.ErrorIs(t, err, lookupFailed)
			}
		})
	}
}
