package apiserver

import (
	"context"
	"errors"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// pool holds the etcd clients of one transport: one for floors and the watches of caches (see streams), which must not
// stand behind a big list in the same TCP connection, and a few for everything else. Upstream has one client for each
// resource, which with many custom resources is thousands of connections (kubernetes#111622).
type pool struct {
	floor *clientv3.Client
	// streams are those of the watches, on the floors' connection as long as that has room.
	streams *streams
	conns   doubting // of the shared ones

	mu     sync.Mutex
	shared []*clientv3.Client
	stores []int // how many stores use shared[i]
}

// How much etcd may send ahead on the floors' connection: at a round trip of 1 ms a window of 1 MiB lets 1 GB/s of one
// watch through. gRPC reads what comes in any case, so a cache that is slow holds up its own watch and nothing else.
const (
	streamWindow = 1 << 20
	connWindow   = 8 << 20
)

// newPool dials all clients at once and answers when all are ready, or none is kept.
func newPool(ctx context.Context, tc storagebackend.TransportConfig, size int, extra ...grpc.DialOption) (*pool, error) {
	p := &pool{shared: make([]*clientv3.Client, size), stores: make([]int, size)}
	group, ctx := errgroup.WithContext(ctx) // the first failure ends the other waits
	// The floors' client is not observed as upstream's are. What goes over it is shared by many requests and carries the
	// trace of none, has metrics of rvfloor's own, and is the one thing that every verified read waits for: the observers
	// cost a sixth of it.
	// Its windows are fixed, and wide: gRPC pings after each answer to find out how wide they should be, which costs the
	// machine a round trip for each floor and each report of progress.
	options := append([]grpc.DialOption{grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow)}, extra...)
	p.streams = newStreams(nil, func(ctx context.Context) (*clientv3.Client, error) { return dialLeaving(ctx, tc, options...) })
	group.Go(func() (err error) {
		p.floor, err = dialLeaving(ctx, tc, append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(p.streams.watchCalls)}, options...)...)
		return err
	})
	for i := range p.shared {
		group.Go(func() (err error) {
			p.shared[i], err = dial(ctx, tc, append([]grpc.DialOption{grpc.WithStatsHandler(&p.conns)}, extra...)...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		_ = p.close()
		return nil, err
	}
	p.streams.conns[0].client = p.floor
	checkFeatures(p.floor)
	return p, nil
}

// checkFeatures lets the API server's process-wide feature checker look at the versions of the client's endpoints, once
// each: without it the Cacher takes etcd for too old to answer consistent reads from memory. etcd3.New would do it, but
// asks its client for the endpoints, and the stores' clients have none (see newStoreClient). The checker works in the
// background until it knows or the client is closed.
func checkFeatures(client *clientv3.Client) {
	feature.DefaultFeatureSupportChecker.CheckClient(client.Ctx(), client, storage.RequestWatchProgress)
}

// take answers the client that the fewest stores use, and what gives it back.
func (p *pool) take() (*clientv3.Client, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := 0
	for i, n := range p.stores {
		if n < p.stores[least] {
			least = i
		}
	}
	p.stores[least]++
	return p.shared[least], sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stores[least]--
	})
}

// close closes all clients, those of stores that still use them too.
func (p *pool) close() error {
	errs := []error{p.streams.close()}
	for _, client := range append(p.shared, p.floor) {
		if client != nil { // nil: it never became ready
			errs = append(errs, client.Close())
		}
	}
	return errors.Join(errs...)
}
