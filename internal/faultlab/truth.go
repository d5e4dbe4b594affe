package faultlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/apis/example"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// endKey ends what is told of a history: all before it is known then.
const endKey = "/faultlab/end"

// followTruth tells what etcd does from a revision on, until the end key is written.
func (l *lab) followTruth(ctx context.Context, from uint64) {
	ctx, cancel := context.WithCancel(ctx)
	watch := l.client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(int64(from)))
	go func() {
		defer cancel()
		l.truth <- l.tellTruth(watch)
	}()
}

func (l *lab) tellTruth(watch clientv3.WatchChan) error {
	for resp := range watch {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("faultlab: the watch for the truth: %w", err)
		}
		ended := slices.ContainsFunc(resp.Events, func(e *clientv3.Event) bool { return strings.HasPrefix(string(e.Kv.Key), endKey) })
		if err := tell(resp.Events, sides.DecodePod, l.runs...); err != nil {
			return err
		}
		if err := tell(resp.Events, l.decodeSealed, l.sealed); err != nil {
			return err
		}
		if ended {
			return nil
		}
	}
	return errors.New("faultlab: the watch for the truth ended")
}

// decoding is the object of a key, if that is of the resource.
type decoding func(etcdKey, value []byte) (key string, pod *example.Pod, err error)

// tell tells runs what happened to a resource.
func tell(events []*clientv3.Event, decode decoding, runs ...*linear.Run) error {
	revisions, err := revisionsOf(events, decode)
	for _, run := range runs {
		err = errors.Join(err, run.Truth(revisions...))
	}
	return err
}

// revisionsOf are the revisions of a response, which etcd does not split.
func revisionsOf(events []*clientv3.Event, decode decoding) (revisions []linear.Revision, err error) {
	for _, event := range events {
		at := uint64(event.Kv.ModRevision)
		if n := len(revisions); n == 0 || revisions[n-1].Revision != at {
			revisions = append(revisions, linear.Revision{Revision: at})
		}
		key, pod, err := decode(event.Kv.Key, event.Kv.Value)
		if err != nil {
			return nil, err
		}
		if pod == nil {
			continue
		}
		last := &revisions[len(revisions)-1]
		last.Changes = append(last.Changes, linear.Change{Key: key, Value: pod.Spec.Hostname, Deleted: event.Type == clientv3.EventTypeDelete})
	}
	return revisions, nil
}

// endTruth waits until all is known that the clients can have seen, and returns the
// revision at which it ends.
func (l *lab) endTruth(ctx context.Context) (revision uint64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("faultlab: the truth did not come to its end"))
	defer cancel()
	for {
		call, done := context.WithTimeout(ctx, callTimeout)
		resp, err := l.client.Put(call, endKey, "")
		done()
		if err == nil {
			revision = uint64(resp.Header.Revision)
			break
		}
		if ctx.Err() != nil {
			return 0, errors.Join(context.Cause(ctx), err)
		}
	}
	select {
	case err := <-l.truth:
		return revision, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
