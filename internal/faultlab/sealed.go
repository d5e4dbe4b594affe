package faultlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/podclient"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// Each server has a second resource, which faults make unreadable. Its reads may fail then,
// and are never wrong; those of the pods beside it are as ever.

// sealedName is that of the resource.
const sealedName = "sealed"

// corruptNamespace is where faults put what an API server would not. Of it nobody is told
// the truth: what a cache has there is no history.
const corruptNamespace = "corrupt"

// sealing is a transformer whose key can be taken away, as with a KMS that is down.
type sealing struct{ sealed atomic.Bool }

var errSealed = errors.New("faultlab: the key is not there")

func (s *sealing) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	if s.sealed.Load() {
		return nil, false, errSealed
	}
	return data, false, nil
}

func (s *sealing) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return data, nil
}

func (l *lab) sealable() sides.Resource {
	return sides.Resource{Name: sealedName, Transformer: &l.seal}
}

func (l *lab) decodeSealed(etcdKey, value []byte) (key string, pod *example.Pod, err error) {
	if strings.HasPrefix(string(etcdKey), l.corruptKey("")) {
		return "", nil, nil
	}
	return l.sealable().Decode(etcdKey, value)
}

func (l *lab) corruptKey(name string) string {
	return l.sealable().EtcdKey(sides.PodKey(corruptNamespace, name))
}

// all are the runs that are told of etcd's history.
func (l *lab) all() []*linear.Run { return append([]*linear.Run{l.sealed}, l.runs...) }

// put writes what no API server would, and returns its revision.
func (l *lab) put(ctx context.Context, name, value string) (revision uint64, err error) {
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := l.client.Put(call, l.corruptKey(name), value)
		cancel()
		if err == nil {
			return uint64(resp.Header.Revision), nil
		}
		if ctx.Err() != nil {
			return 0, errors.Join(context.Cause(ctx), err)
		}
	}
}

// removeCorrupt takes back all that put wrote.
func (l *lab) removeCorrupt(ctx context.Context) error {
	_, err := l.client.Delete(ctx, l.corruptKey(""), clientv3.WithPrefix())
	return err
}

// seal takes away the key of the resource, and lets its caches notice: none of them can be
// filled from then on.
func seal(ctx context.Context, l *lab, _ *rand.Rand) (func(context.Context) error, error) {
	l.seal.sealed.Store(true)
	end := func(ctx context.Context) error {
		l.seal.sealed.Store(false)
		return l.removeCorrupt(ctx)
	}
	_, value, err := sides.EncodePod(podclient.NewPod(corruptNamespace, "noticed"))
	if err != nil {
		return end, err
	}
	return end, l.spoil(ctx, "noticed", value)
}

// corrupt puts an object into the resource that nobody can decode. When it has been taken
// away the history still has it: a cache would try for half a minute to go on from before it
// (client-go's reflector, MaxInternalErrorRetryDuration), if that were not compacted.
func corrupt(ctx context.Context, l *lab, _ *rand.Rand) (func(context.Context) error, error) {
	end := func(ctx context.Context) error {
		if err := l.removeCorrupt(ctx); err != nil {
			return err
		}
		now, err := l.client.Get(ctx, endKey)
		if err != nil {
			return err
		}
		_, err = l.client.Compact(ctx, now.Header.Revision)
		return err
	}
	return end, l.spoil(ctx, "garbage", "\x00garbage")
}

// spoil writes what cannot be read, and returns when no server answers from its cache, which
// cannot get there. Stock is not asked: it would.
func (l *lab) spoil(ctx context.Context, name, value string) error {
	written, err := l.put(ctx, name, value)
	if err != nil || l.cfg.Apart {
		return err
	}
	for _, s := range l.servers {
		err := until(ctx, s.sealed, "a", func(pods *example.PodList, err error) (bool, error) {
			if err != nil {
				return true, nil
			}
			return true, l.stale(s, pods, written) // a quorum list of another namespace
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// misname puts an object into the resource under the key of another one, as well as under
// its own (kubernetes#135115).
func misname(ctx context.Context, l *lab, _ *rand.Rand) (func(context.Context) error, error) {
	_, value, err := sides.EncodePod(podclient.NewPod(corruptNamespace, "one"))
	if err != nil {
		return none, err
	}
	var written uint64
	for _, name := range []string{"one", "two"} {
		if written, err = l.put(ctx, name, value); err != nil {
			return l.removeCorrupt, err
		}
	}
	for _, s := range l.servers {
		err := until(ctx, s.sealed, corruptNamespace, func(pods *example.PodList, err error) (bool, error) {
			if err != nil {
				return false, err
			}
			return true, l.stale(s, pods, written)
		})
		if err != nil {
			return l.removeCorrupt, err
		}
	}
	return l.removeCorrupt, nil
}

// stale says that an answer is older than a write that was acknowledged before. The stock
// server is not asked.
func (l *lab) stale(s *server, pods *example.PodList, written uint64) error {
	revision, err := sides.Versioner.ParseResourceVersion(pods.ResourceVersion)
	if l.cfg.Apart || err == nil && revision >= written {
		return nil
	}
	return fmt.Errorf("%s: a stale answer, at %q, where %d was acknowledged before", s.name, pods.ResourceVersion, written)
}

// restoreSealed is restore, in which the caches of the one resource cannot be filled before
// all servers have answered of the other.
func restoreSealed(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
	l.seal.sealed.Store(true)
	mend, err := restore(ctx, l, random)
	return func(ctx context.Context) error {
		defer l.seal.sealed.Store(false)
		if err := mend(ctx); err != nil {
			return err
		}
		return l.awaitAnswers(ctx)
	}, err
}

// awaitUnsealed waits until all servers answer of the resource again.
func (l *lab) awaitUnsealed(ctx context.Context) error {
	for _, s := range l.servers {
		err := until(ctx, s.sealed, "a", func(_ *example.PodList, err error) (bool, error) { return err == nil, err })
		if err != nil {
			return fmt.Errorf("%s, of %s: %w", s.name, sealedName, err)
		}
	}
	return nil
}

// sealedWorker is a client of a server that reads and writes the resource. It counts for
// nothing but its own run.
type sealedWorker struct {
	lab    *lab
	client podclient.Client
	random *rand.Rand
}

func (l *lab) newSealedWorker(s *server, role string) *sealedWorker {
	client := l.sealed.Client(s.name + " " + role + " of " + sealedName)
	return &sealedWorker{l, podclient.Client{Store: s.sealed, Reads: client, Writes: []*linear.Client{client}},
		rand.New(rand.NewPCG(l.cfg.Seed, uint64(s.name[len(s.name)-1])))}
}

// sealedEach is how often it does something: it is not to be most of what is done.
const sealedEach = 5 * time.Millisecond

func (w *sealedWorker) work(ctx context.Context) {
	for ctx.Err() == nil {
		w.lab.steps.RLock()
		err := within(ctx, callTimeout, w.step)
		w.lab.steps.RUnlock()
		if err != nil {
			sleep(ctx, pause)
		}
		sleep(ctx, sealedEach)
	}
}

// follow watches again and again until ctx ends, each time for as long as a fault lasts.
func (w *sealedWorker) follow(ctx context.Context) {
	for ctx.Err() == nil {
		w.lab.steps.RLock()
		err := within(ctx, hold+callTimeout, func(ctx context.Context) error {
			revision, events, err := w.client.WatchList(ctx, "a")
			if err != nil {
				return err
			}
			defer events.Stop()
			recorded := w.client.Reads.Watch(sides.PodPrefix+"a/", revision)
			for event := range events.ResultChan() {
				if !podclient.Deliver(recorded, event) {
					return podclient.ErrEnded
				}
			}
			return nil
		})
		w.lab.steps.RUnlock()
		if err != nil {
			sleep(ctx, pause)
		}
	}
}

func (w *sealedWorker) step(ctx context.Context) (err error) {
	namespace, name := pick(w.random, []string{"a", "b"}), pick(w.random, names)
	switch n := w.random.IntN(100); {
	case n < 10:
		_, err = w.client.Create(ctx, podclient.NewPod(namespace, name))
	case n < 20:
		_, err = w.client.Update(ctx, podclient.NewPod(namespace, name))
	case n < 26:
		_, err = w.client.Delete(ctx, namespace, name)
	case n < 55:
		_, err = w.client.List(ctx, namespace, sides.Everything(""))
	case n < 75:
		_, err = w.client.List(ctx, namespace, sides.Everything("0"))
	case n < 88:
		err = w.client.Get(ctx, namespace, name, "")
	default:
		err = w.client.Get(ctx, namespace, name, "0")
	}
	return err
}
