package faultlab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/revision"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// lab is one run.
type lab struct {
	cfg     Config
	cluster *etcdlab.Processes
	client  *clientv3.Client // past all doors, for what is not an API server's
	servers []*server
	runs    []*linear.Run // one, or one for each kind of read
	seal    sealing       // of the resource that cannot always be read
	sealed  *linear.Run   // what was read of that, and written
	truth   chan error    // from tellTruth
	ends    []func() error
	life    context.Context // of the run

	steps  sync.RWMutex // held for reading by each step of a client: all pause for a writer
	writes sync.RWMutex // likewise by writes past all API servers

	acknowledged atomic.Pointer[revision.Ratchet] // the newest write of the present history
	operations   atomic.Int64
	// Those of watches, but for initial events and the bookmarks that end them.
	events, bookmarks atomic.Int64
	tally             tally
}

// server is the storage of one API server, and its doors to etcd.
type server struct {
	name          string
	store, sealed storage.Interface
	doors         []*etcdlab.Proxy
}

// watchLate is how late the watch of the second server is: far more than a read takes.
const watchLate = 20 * time.Millisecond

func start(ctx context.Context, cfg Config) (*lab, error) {
	l := &lab{cfg: cfg, life: ctx, truth: make(chan error, 1)}
	runs := 1
	if cfg.Apart {
		runs = len(readings)
	}
	for range runs {
		l.runs = append(l.runs, linear.New(linear.Config{Prefix: sides.PodPrefix, SecondOpinion: secondOpinion}))
	}
	l.sealed = linear.New(linear.Config{Prefix: sides.PodPrefix})
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) open(ctx context.Context) (err error) {
	if l.cluster, err = etcdlab.StartProcesses(etcdlab.Config{Members: 3}); err != nil {
		return err
	}
	l.ends = append(l.ends, l.cluster.Close)
	l.client, err = clientv3.New(clientv3.Config{
		Endpoints:            []string{l.cluster.Direct(0), l.cluster.Direct(1), l.cluster.Direct(2)},
		DialTimeout:          callTimeout,
		DialKeepAliveTime:    10 * time.Second, // as often as gRPC lets a client ask
		DialKeepAliveTimeout: callTimeout,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return err
	}
	l.ends = append(l.ends, l.client.Close)
	l.acknowledged.Store(&revision.Ratchet{})
	l.followTruth(ctx, 1)
	for i, members := range [][]int{{0, 1, 2}, {1}, {2}} {
		if err := l.openServer(ctx, l.cfg.Server(i == 2), i, members); err != nil {
			return fmt.Errorf("faultlab: server %d: %w", i, err)
		}
	}
	if l.cfg.Direct != nil {
		return l.openServer(ctx, l.cfg.Direct, 3, []int{0})
	}
	return nil
}

func (l *lab) openServer(ctx context.Context, kind sides.Kind, i int, members []int) error {
	s := &server{name: fmt.Sprintf("server %d", i)}
	var endpoints []string
	for _, member := range members {
		door, err := l.cluster.Door(member)
		if err != nil {
			return err
		}
		s.doors = append(s.doors, door)
		endpoints = append(endpoints, "http://"+door.Addr())
	}
	if i == 1 {
		late, err := etcdlab.NewWatchDelay(s.doors[0].Addr(), watchLate)
		if err != nil {
			return err
		}
		l.ends = append(l.ends, func() error { late.Close(); return nil })
		endpoints = []string{late.Endpoint()}
	}
	stores, end, err := sides.OpenResources(ctx, kind, endpoints, sides.Resource{}, l.sealable())
	if err != nil {
		return err
	}
	s.store, s.sealed = stores[0], stores[1]
	l.ends = append(l.ends, end)
	l.servers = append(l.servers, s)
	return nil
}

// close ends what was opened, the last first.
func (l *lab) close() error {
	var errs []error
	for i := len(l.ends) - 1; i >= 0; i-- {
		errs = append(errs, l.ends[i]())
	}
	return errors.Join(errs...)
}
