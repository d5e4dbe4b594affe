package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rvfloor/rvfloor/internal/revision"
)

const (
	// elsewhereKey is an object of another resource, which no side caches.
	elsewhereKey = etcdPrefix + "/configmaps/bench/elsewhere"
	// writePace is the time between two writes during a storm: fast enough for many
	// of them to fall into it, and too slow to compete with it for the cores.
	writePace = 10 * time.Millisecond
)

// writeElsewhere writes an object of another resource and returns the revision
// at which etcd acknowledged it.
func (l *lab) writeElsewhere(ctx context.Context) (uint64, error) {
	resp, err := l.client.Put(ctx, elsewhereKey, time.Now().String())
	if err != nil {
		return 0, fmt.Errorf("bench: write to another resource: %w", err)
	}
	return uint64(resp.Header.Revision), nil
}

// writePod creates or updates pod i and returns its revision.
func (l *lab) writePod(ctx context.Context, i int) (uint64, error) {
	data, err := runtime.Encode(codec, newPodNumber(i))
	if err != nil {
		return 0, fmt.Errorf("bench: encode a pod: %w", err)
	}
	resp, err := l.client.Put(ctx, podKey(i), string(data))
	if err != nil {
		return 0, fmt.Errorf("bench: write a pod: %w", err)
	}
	return uint64(resp.Header.Revision), nil
}

// fill writes the pods that the sides list.
func (l *lab) fill(ctx context.Context) error {
	for i := range pods {
		if _, err := l.writePod(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// writer writes to another resource at writePace until it is stopped.
type writer struct {
	acknowledged revision.Ratchet // of its newest write
	cancel       context.CancelFunc
	running      sync.WaitGroup
	err          error // set before running is done
}

// startWriter returns after the first write was acknowledged.
func (l *lab) startWriter(ctx context.Context) (*writer, error) {
	first, err := l.writeElsewhere(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &writer{cancel: cancel}
	w.acknowledged.Raise(first)
	w.running.Go(func() { w.err = w.run(ctx, l) })
	return w, nil
}

func (w *writer) run(ctx context.Context, l *lab) error {
	ticker := time.NewTicker(writePace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		revision, err := l.writeElsewhere(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		w.acknowledged.Raise(revision)
	}
}

// stop returns when the last write has ended, with what made them end early.
func (w *writer) stop() error {
	w.cancel()
	w.running.Wait()
	return w.err
}
