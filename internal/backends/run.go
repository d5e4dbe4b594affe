package backends

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/podclient"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// Config says what is run.
type Config struct {
	// Stores are the pods' storages of the API servers, as sides.OpenAt makes them, all
	// over one backend.
	Stores []storage.Interface
	// Client is a client of the backend past all that may be wrong with it: its watch of
	// the pods from the first revision is the truth.
	Client *clientv3.Client
	// Operations are made at least.
	Operations int
	// PassesOver is linear's.
	PassesOver bool
	// Timeout bounds each call; 0 means 500 ms.
	Timeout time.Duration
}

const (
	// workers are the clients of each server.
	workers = 3
	// pause is what a client waits after a failure: clients do not spin.
	pause = 10 * time.Millisecond
	// endNamespace has the pod that is written when all clients have ended: the truth is
	// known up to there.
	endNamespace = "end"
	// patience bounds what is waited for at the end.
	patience = time.Minute
)

// Run lets clients of all servers read and write the same few pods, and returns what
// linear says of that. The error says what kept it from judging.
func Run(ctx context.Context, cfg Config) (*linear.Report, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = 500 * time.Millisecond
	}
	r := &runner{cfg: cfg, run: linear.New(linear.Config{Prefix: sides.PodPrefix, PassesOver: cfg.PassesOver})}
	watching, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	watcher := clientv3.NewWatcher(cfg.Client)
	defer watcher.Close()
	end := podclient.NewPod(endNamespace, endNamespace)
	key, value, err := sides.EncodePod(end)
	if err != nil {
		return nil, err
	}
	watch := watcher.Watch(watching, strings.TrimSuffix(key, endNamespace+"/"+endNamespace), clientv3.WithPrefix(), clientv3.WithRev(1))
	truth := make(chan error, 1)
	go func() { truth <- r.tellTruth(watch) }()

	var working sync.WaitGroup
	var came atomic.Int64
	for i, store := range cfg.Stores {
		informer := podclient.Client{Store: store, Reads: r.run.Client(fmt.Sprintf("informer of server %d", i))}
		following.Go(func() { came.Add(int64(informer.Follow(watching, pause))) })
		for j := range workers {
			client := r.run.Client(fmt.Sprintf("server %d client %d", i, j))
			w := &worker{
				runner: r, random: rand.New(rand.NewPCG(uint64(i), uint64(j))),
				Client: podclient.Client{Store: store, Reads: client, Writes: []*linear.Client{client}},
			}
			working.Go(func() { w.work(ctx) })
		}
	}
	working.Wait()
	write := r.run.Client("the last").Write(linear.Create, podclient.Change(end))
	resp, err := cfg.Client.Put(ctx, key, value)
	if err != nil {
		return nil, err
	}
	write.Acknowledged(uint64(resp.Header.Revision))
	select {
	case err := <-truth:
		if err != nil {
			return nil, err
		}
	case <-time.After(patience):
		return nil, errors.New("backends: the truth did not come to its end")
	}
	stop()
	following.Wait()
	if came.Load() == 0 {
		return nil, errors.New("backends: no watch has brought anything")
	}
	return r.run.Check(), nil
}

// runner is one Run.
type runner struct {
	cfg        Config
	run        *linear.Run
	operations atomic.Int64
}

// tellTruth tells what became of the pods, from the first revision to the last write.
func (r *runner) tellTruth(watch clientv3.WatchChan) error {
	for resp := range watch {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("backends: the watch for the truth: %w", err)
		}
		var revisions []linear.Revision
		ended := false
		for _, event := range resp.Events {
			at := uint64(event.Kv.ModRevision)
			if n := len(revisions); n == 0 || revisions[n-1].Revision != at {
				revisions = append(revisions, linear.Revision{Revision: at})
			}
			key, pod, err := sides.DecodePod(event.Kv.Key, event.Kv.Value)
			if err != nil {
				return err
			}
			ended = ended || pod.Namespace == endNamespace
			last := &revisions[len(revisions)-1]
			last.Changes = append(last.Changes, linear.Change{Key: key, Value: pod.Spec.Hostname, Deleted: event.Type == clientv3.EventTypeDelete})
		}
		if err := r.run.Truth(revisions...); err != nil {
			return err
		}
		if ended {
			return nil
		}
	}
	return errors.New("backends: the watch for the truth ended")
}
