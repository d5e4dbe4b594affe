package sides

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/revision"
)

const (
	// ElsewhereKey is an object of another resource, which no side caches.
	ElsewhereKey = etcdPrefix + "/configmaps/default/elsewhere"
	// writePace is the time between two writes of a Writer: fast enough for many of
	// them to fall into a storm, and too slow to compete with it for the cores.
	writePace = 10 * time.Millisecond
	// leaseSeconds is far above the time until a lease is ended by hand.
	leaseSeconds = 3600
)

// WriteElsewhere writes ElsewhereKey and returns the revision at which etcd
// acknowledged it.
func (l *Lab) WriteElsewhere(ctx context.Context) (uint64, error) {
	resp, err := l.client.Put(ctx, ElsewhereKey, time.Now().String())
	if err != nil {
		return 0, fmt.Errorf("sides: write to another resource: %w", err)
	}
	return uint64(resp.Header.Revision), nil
}

// WritePod creates or updates pod i, counted from 0, and returns its revision.
func (l *Lab) WritePod(ctx context.Context, i int) (uint64, error) {
	return l.WritePodIn(ctx, namespace, i)
}

// WritePodIn is WritePod in a namespace.
func (l *Lab) WritePodIn(ctx context.Context, namespace string, i int) (uint64, error) {
	key, value, err := encodePod(namespace, i)
	if err != nil {
		return 0, err
	}
	resp, err := l.client.Put(ctx, key, value)
	if err != nil {
		return 0, fmt.Errorf("sides: write a pod: %w", err)
	}
	return uint64(resp.Header.Revision), nil
}

// Fill writes the pods that the sides list.
func (l *Lab) Fill(ctx context.Context) error {
	for i := range Pods {
		if _, err := l.WritePod(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// LeasePods writes n pods to a namespace, all under one lease, as upstream's lease
// manager does with objects that have a TTL. What it returns ends the lease: when
// that is acknowledged the pods are gone, all at one revision.
func (l *Lab) LeasePods(ctx context.Context, namespace string, n int) (end func(context.Context) error, err error) {
	lease, err := l.client.Grant(ctx, leaseSeconds)
	if err != nil {
		return nil, fmt.Errorf("sides: grant a lease: %w", err)
	}
	if err := l.writePods(ctx, namespace, n, clientv3.WithLease(lease.ID)); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if _, err := l.client.Revoke(ctx, lease.ID); err != nil {
			return fmt.Errorf("sides: end a lease: %w", err)
		}
		return nil
	}, nil
}

// FillNamespace writes n pods to a namespace, many at a time.
func (l *Lab) FillNamespace(ctx context.Context, namespace string, n int) error {
	return l.writePods(ctx, namespace, n)
}

func (l *Lab) writePods(ctx context.Context, namespace string, n int, opts ...clientv3.OpOption) error {
	var puts []clientv3.Op
	for i := range n {
		key, value, err := encodePod(namespace, i)
		if err != nil {
			return err
		}
		puts = append(puts, clientv3.OpPut(key, value, opts...))
	}
	for chunk := range slices.Chunk(puts, etcdlab.MaxTxnOps) {
		if _, err := l.client.Txn(ctx).Then(chunk...).Commit(); err != nil {
			return fmt.Errorf("sides: write pods of %s: %w", namespace, err)
		}
	}
	return nil
}

// Writer writes to another resource, a hundred times a second, while it runs.
type Writer struct {
	// Acknowledged is the revision of its newest write.
	Acknowledged revision.Ratchet

	cancel  context.CancelFunc
	running sync.WaitGroup
	err     error // set before running is done
}

// startWriter returns after the first write was acknowledged.
func (l *Lab) startWriter(ctx context.Context) (*Writer, error) {
	first, err := l.WriteElsewhere(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Writer{cancel: cancel}
	w.Acknowledged.Raise(first)
	w.running.Go(func() { w.err = w.run(ctx, l) })
	return w, nil
}

func (w *Writer) run(ctx context.Context, l *Lab) error {
	ticker := time.NewTicker(writePace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		revision, err := l.WriteElsewhere(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		w.Acknowledged.Raise(revision)
	}
}

// stop returns when the last write has ended, with what made them end early.
func (w *Writer) stop() error {
	w.cancel()
	w.running.Wait()
	return w.err
}
