package faultlab

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	truth   chan error    // from tellTruth
	ends    []func() error

	acknowledged revision.Ratchet // the newest write
	operations   atomic.Int64
	values       atomic.Int64 // written so far
	tally        tally
}

// server is the storage of one API server, and its doors to etcd.
type server struct {
	name  string
	store storage.Interface
	doors []*etcdlab.Proxy
}

// watchLate is how late the watch of the second server is: far more than a read takes.
const watchLate = 20 * time.Millisecond

func start(ctx context.Context, cfg Config) (*lab, error) {
	l := &lab{cfg: cfg, truth: make(chan error, 1)}
	runs := 1
	if cfg.Apart {
		runs = len(readings)
	}
	for range runs {
		l.runs = append(l.runs, linear.New(linear.Config{Prefix: sides.PodPrefix}))
	}
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
	watch := l.client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(1))
	go func() { l.truth <- l.tellTruth(watch) }()
	for i, members := range [][]int{{0, 1, 2}, {1}, {2}} {
		if err := l.openServer(ctx, i, members); err != nil {
			return fmt.Errorf("faultlab: server %d: %w", i, err)
		}
	}
	return nil
}

func (l *lab) openServer(ctx context.Context, i int, members []int) error {
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
	store, end, err := sides.OpenAt(ctx, l.cfg.Server(i == 2), endpoints...)
	if err != nil {
		return err
	}
	s.store = store
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

// endKey is written when all clients have ended: the truth is known up to there.
const endKey = "/faultlab/end"

// tellTruth tells what etcd did, from its first revision to the end key.
func (l *lab) tellTruth(watch clientv3.WatchChan) error {
	for resp := range watch {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("faultlab: the watch for the truth: %w", err)
		}
		revisions, ended, err := revisionsOf(resp.Events)
		if err != nil {
			return err
		}
		for _, run := range l.runs {
			if err := run.Truth(revisions...); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
	return errors.New("faultlab: the watch for the truth ended")
}

// revisionsOf are the revisions of a response, which etcd does not split.
func revisionsOf(events []*clientv3.Event) (revisions []linear.Revision, ended bool, err error) {
	for _, event := range events {
		at := uint64(event.Kv.ModRevision)
		if n := len(revisions); n == 0 || revisions[n-1].Revision != at {
			revisions = append(revisions, linear.Revision{Revision: at})
		}
		ended = ended || strings.HasPrefix(string(event.Kv.Key), endKey)
		key, pod, err := sides.DecodePod(event.Kv.Key, event.Kv.Value)
		if err != nil {
			return nil, false, err
		}
		if pod == nil {
			continue
		}
		last := &revisions[len(revisions)-1]
		last.Changes = append(last.Changes, linear.Change{Key: key, Value: pod.Spec.Hostname, Deleted: event.Type == clientv3.EventTypeDelete})
	}
	return revisions, ended, nil
}
