package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/server/egressselector"

	"github.com/rvfloor/rvfloor/decorator"
)

// However many resources there are, their transport has one connection for floors and EtcdClients more, and one compactor;
// the last resource to go takes them along. A second round starts afresh.
func TestResourcesComeAndGo(t *testing.T) {
	etcd := startEtcd(t)
	var conns trackedConns
	cfg := storageConfig(etcd.Endpoints()...)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	b := newBackends(t, Config{EtcdClients: 3})
	prefixes := []string{"/pods", "/services", "/secrets", "/nodes", "/leases", "/jobs", "/roles", "/tasks"}
	round := func() {
		var open []*resource
		for _, prefix := range prefixes {
			r, err := b.open(podSpec(cfg, prefix))
			require.NoError(t, err)
			open = append(open, r)
		}
		for i, r := range open {
			read(t, r, prefixes[i])
		}
		awaitGoroutines(t, compactLoop, 1)
		assert.Equal(t, []int{3, 3, 2}, open[0].transport.clients.stores, "the stores are spread")
		for i, r := range open {
			if i == len(open)-1 {
				assert.Len(t, b.transports, 1)
			}
			r.destroy()
		}
		assert.Empty(t, b.transports)
		awaitGoroutines(t, compactLoop, 0)
	}
	round()
	conns.awaitNone(t)
	firstRound := conns.count()
	assert.GreaterOrEqual(t, firstRound, 4)

	before := goleak.IgnoreCurrent()
	round()
	assert.Equal(t, 4, conns.count()-firstRound, "the feature check of the endpoint, a connection of its own for a moment, was done")
	conns.awaitNone(t)
	goleak.VerifyNone(t, before)
}

// Close ends everything once; what is called afterwards does no harm.
func TestClose(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	var conns trackedConns
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	warm := newBackends(t, Config{})
	_, err := warm.open(podSpec(cfg, podPrefix))
	require.NoError(t, err)
	require.NoError(t, warm.Close())
	before := goleak.IgnoreCurrent()

	b := newBackends(t, Config{})
	pods, err := b.open(podSpec(cfg, podPrefix))
	require.NoError(t, err)
	services, err := b.open(podSpec(cfg, "/services"))
	require.NoError(t, err)
	read(t, pods, podPrefix)
	services.destroy()
	var closing sync.WaitGroup
	for range 3 {
		closing.Go(func() { assert.NoError(t, b.Close()) })
		closing.Go(pods.destroy)
	}
	closing.Wait()
	conns.awaitNone(t)
	pods.destroy()
	services.destroy()
	assert.Error(t, tryRead(t, pods, podPrefix))
	_, err = b.open(podSpec(cfg, podPrefix))
	assert.ErrorIs(t, err, decorator.ErrClosed)
	goleak.VerifyNone(t, before)
}

// Close does not wait for a dial that hangs.
func TestCloseEndsDialing(t *testing.T) {
	cfg := storageConfig("http://etcd.invalid:2379")
	dialing := make(chan struct{}, 10)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialing <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil
	}
	before := goleak.IgnoreCurrent()
	b := newBackends(t, Config{})
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() {
			_, err := b.open(podSpec(cfg, podPrefix))
			errs <- err
		}()
	}
	<-dialing
	require.NoError(t, b.Close())
	for range cap(errs) {
		assert.ErrorIs(t, <-errs, decorator.ErrClosed)
	}
	assert.Empty(t, b.transports)
	goleak.VerifyNone(t, before)
}

// Resources of two transports come and go from many goroutines, and nothing is left.
func TestChurn(t *testing.T) {
	clusters := []*clientv3.Client{startEtcd(t), startEtcd(t)}
	var conns trackedConns
	lookup := func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return conns.dial, nil }
	b := newBackends(t, Config{})
	var churning sync.WaitGroup
	for i := range 8 {
		cfg := storageConfig(clusters[i%2].Endpoints()...)
		cfg.Transport.EgressLookup = lookup
		churning.Go(func() {
			for range 5 {
				r, err := b.open(podSpec(cfg, fmt.Sprintf("/pods%d", i)))
				if assert.NoError(t, err) {
					r.destroy()
				}
			}
		})
	}
	churning.Wait()
	assert.Empty(t, b.transports)
	assert.Empty(t, b.resources)
	conns.awaitNone(t)
}

// A resource without a watch cache brings upstream's compactor into the process. Neither stops the other's.
func TestCompactorsLeaveEachOtherAlone(t *testing.T) {
	etcd := startEtcd(t)
	b := newBackends(t, Config{})
	for _, upstreamFirst := range []bool{true, false} {
		opened := map[string]func(){}
		open := func(name string, getter generic.RESTOptionsGetter) {
			s, err := tryRegistry(name, getter)
			require.NoError(t, err)
			opened[name] = s.Destroy
		}
		plain := stock(storageConfig(etcd.Endpoints()...))
		plain.decorator = generic.UndecoratedStorage
		if upstreamFirst {
			open("events", b.RESTOptionsGetter(plain))
			open("pods", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
		} else {
			open("pods", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
			open("events", b.RESTOptionsGetter(plain))
		}
		awaitGoroutines(t, compactLoop, 2)
		opened["pods"]()
		awaitGoroutines(t, compactLoop, 1)
		opened["events"]()
		awaitGoroutines(t, compactLoop, 0)
	}
}

// A cluster that could not be reached is dialed again for the next resource.
func TestFailedTransportIsForgotten(t *testing.T) {
	etcd := startEtcd(t)
	var down bool
	cfg := storageConfig(etcd.Endpoints()...)
	cfg.Transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
		if down {
			return nil, errors.New("down")
		}
		return (&net.Dialer{}).DialContext, nil
	}
	b := newBackends(t, Config{})
	down = true
	_, err := b.open(podSpec(cfg, podPrefix))
	require.ErrorContains(t, err, "down")
	assert.Empty(t, b.transports)
	assert.Empty(t, b.resources)
	down = false
	r, err := b.open(podSpec(cfg, podPrefix))
	require.NoError(t, err)
	r.destroy()
}

// While the resources that waited for a transport in vain are still leaving it, the next one dials anew.
func TestFailedTransportIsForgottenAtOnce(t *testing.T) {
	b := newBackends(t, Config{})
	enter := func() *resource {
		r, err := b.enter(storageConfig()) // no endpoint: dialing fails
		require.NoError(t, err)
		t.Cleanup(b.opening.Done)
		return r
	}
	one, two := enter(), enter()
	assert.Same(t, one.transport, two.transport)
	require.Error(t, one.transport.open())
	one.destroy()
	three := enter()
	assert.NotSame(t, two.transport, three.transport)
	two.destroy()
	assert.Same(t, three.transport, b.transports[three.transport.id], "who leaves late takes nothing from the new one")
	three.destroy()
	assert.Empty(t, b.transports)
}
