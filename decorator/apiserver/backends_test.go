package apiserver

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/rvfloor/rvfloor/decorator"
)

// The one line: two API servers over one etcd, each with a registry as it is, and the second reads what the first has
// written as soon as it was acknowledged.
func TestOneLine(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	here := newRegistry(t, "pods", newBackends(t, Config{}).RESTOptionsGetter(stock(cfg)))
	there := newRegistry(t, "pods", newBackends(t, Config{}).RESTOptionsGetter(stock(cfg)))
	decorated(t, here)
	list(t, there)

	var want []string
	for _, name := range []string{"a", "b", "c"} {
		create(t, here, name)
		want = append(want, name)
		assert.Equal(t, want, list(t, there))
	}
}

// A resource without a watch cache stays upstream's, and errors of the inner getter go out as they are.
func TestRESTOptionsGetter(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	b := newBackends(t, Config{})

	undecorated := stock(cfg)
	undecorated.decorator = generic.UndecoratedStorage
	s := newRegistry(t, "pods", b.RESTOptionsGetter(undecorated))
	_, ours := s.Storage.Storage.(*decorator.Healing)
	assert.False(t, ours)
	assert.Empty(t, b.transports)

	failed := stock(cfg)
	failed.err = errors.New("no such resource")
	_, err := tryRegistry("pods", b.RESTOptionsGetter(failed))
	assert.ErrorIs(t, err, failed.err)

	_, err = tryRegistry("pods", b.RESTOptionsGetter(nil))
	assert.ErrorContains(t, err, "ApplyTo")

	opts, err := b.RESTOptionsGetter(stock(cfg)).GetRESTOptions(storageConfig().GroupResource, nil)
	require.NoError(t, err)
	assert.Equal(t, "pods", opts.ResourcePrefix, "what is not the decorator stays")
	assert.True(t, opts.EnableGarbageCollection)
}

// Two clusters have floors of their own: the revision of one says nothing about the other.
func TestTransportsShareNothing(t *testing.T) {
	busy, quiet := startEtcd(t), startEtcd(t)
	for range 50 {
		_, err := busy.Put(t.Context(), "key", "value")
		require.NoError(t, err)
	}
	b := newBackends(t, Config{})
	pods := newRegistry(t, "pods", b.RESTOptionsGetter(stock(storageConfig(busy.Endpoints()...))))
	events := newRegistry(t, "events", b.RESTOptionsGetter(stock(storageConfig(quiet.Endpoints()...))))
	again := newRegistry(t, "services", b.RESTOptionsGetter(stock(storageConfig(quiet.Endpoints()...))))
	create(t, pods, "a")
	create(t, events, "b")
	create(t, again, "c")
	// With the floor of the busy cluster these would wait for a revision that never comes.
	assert.Equal(t, []string{"b"}, list(t, events))
	assert.Equal(t, []string{"c"}, list(t, again))
	assert.Equal(t, []string{"a"}, list(t, pods))

	require.Len(t, b.transports, 2)
	one, two := b.transports[transportIDOf(storageConfig(busy.Endpoints()...).Transport)], b.transports[transportIDOf(storageConfig(quiet.Endpoints()...).Transport)]
	assert.NotSame(t, one.backend, two.backend)
	assert.NotEqual(t, one.name, two.name)
	assert.Equal(t, 1, one.resources)
	assert.Equal(t, 2, two.resources)
}

// The same endpoints with other credentials are a transport of their own, and have a name of their own in metrics.
func TestNamesAreUnique(t *testing.T) {
	ca := newAuthority(t)
	plain := startRecorder(t, nil)
	b := newBackends(t, Config{})
	for i, ca := range []string{"", ca.caFile()} {
		cfg := storageConfig("http://" + plain.addr)
		cfg.Transport.TrustedCAFile = ca
		r, err := b.open(podSpec(cfg, podPrefix))
		require.NoError(t, err)
		assert.Equal(t, plain.addr+[]string{"", "#2"}[i], r.transport.name)
	}
}

// Bad values are named before anything is connected.
func TestNewRefuses(t *testing.T) {
	for field, cfg := range map[string]Config{
		"ZeroVersion":  {ZeroVersion: "Sometimes"},
		"OnUnverified": {OnUnverified: "Guess"},
		"Strategy":     {Strategy: "luck"},
		"MaxStaleness": {ZeroVersion: decorator.ZeroBounded},
		"MaxWait":      {MaxWait: -time.Second},
		"ReadyWait":    {ReadyWait: -time.Second},
		"EtcdClients":  {EtcdClients: -1},
		"SentinelKey":  {SentinelKey: new("sentinel")},
	} {
		b, err := New(cfg)
		assert.Nil(t, b, field)
		assert.ErrorContains(t, err, "Config."+field)
	}
}
