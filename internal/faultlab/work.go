package faultlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/podclient"
	"github.com/rvfloor/rvfloor/internal/revision"
	"github.com/rvfloor/rvfloor/internal/sides"
)

const (
	// callTimeout is the deadline of each call: short, so that a fault costs callers
	// little time, and far above what a call takes without one.
	callTimeout = 500 * time.Millisecond
	// pause is what a client waits after a failure: clients do not spin.
	pause = 20 * time.Millisecond
	// workers are the clients of each server.
	workers = 4
	// crowd are clients of each server that list the same at once: enough of them for a
	// Store to let them share an answer.
	crowd = 16
	// crowdEach is how often: they are not to be most of what is checked.
	crowdEach = 400 * time.Millisecond

	leaseNamespace = "leased"
	// crowded is the namespace that crowds list: no key of secondOpinion is in it, as
	// porcupine gives up on so many reads at once.
	crowded = "crowded"
	// leasing is the one client that ends leases: one of the server whose watch is late,
	// so that its next LIST waits for the end to come.
	leasing = "1-0"
)

var (
	// secondOpinion are keys whose histories porcupine judges too.
	secondOpinion = []string{sides.PodKey("a", "pod-0"), sides.PodKey("b", "pod-1"), sides.PodKey(leaseNamespace, "pod-000")}

	namespaces = []string{"a", "b", crowded}
	names      = []string{"pod-0", "pod-1", "pod-2", "pod-3"}
)

// worker is one client of one server.
type worker struct {
	lab     *lab
	server  *server
	name    string
	clients []*linear.Client // one for each run
	random  *rand.Rand
	seen    uint64            // the newest revision that a LIST answered
	seenOf  *revision.Ratchet // the history of seen
}

func (l *lab) newWorker(s *server, i int) *worker {
	w := &worker{lab: l, server: s, name: fmt.Sprintf("%s-%d", s.name[len("server "):], i)}
	w.random = rand.New(rand.NewPCG(l.cfg.Seed, uint64(len(l.servers)*i)+uint64(s.name[len(s.name)-1])))
	for _, run := range l.runs {
		w.clients = append(w.clients, run.Client(s.name+" client "+w.name))
	}
	return w
}

// client records a kind of read.
func (w *worker) client(as reading) *linear.Client {
	for i, kind := range readings {
		if kind == as {
			return w.clients[i%len(w.clients)]
		}
	}
	panic("faultlab: no such kind of read: " + as)
}

// work makes calls until ctx ends. A call that has begun then is let end.
func (w *worker) work(ctx context.Context) { w.repeat(ctx, callTimeout, w.step) }

// follow watches until ctx ends, each time for long enough that a bookmark comes: the
// cache sends one 2 s before the deadline, by a clock that ticks each second.
func (w *worker) follow(ctx context.Context) {
	w.repeat(ctx, 2*time.Second+200*time.Millisecond, func(ctx context.Context) error {
		namespace := pick(w.random, append(namespaces, leaseNamespace))
		return w.read(ctx, w.watchList(ctx, namespace, 1500*time.Millisecond))
	})
}

func (w *worker) repeat(ctx context.Context, timeout time.Duration, step func(context.Context) error) {
	for ctx.Err() == nil {
		if w.once(ctx, timeout, step) != nil {
			time.Sleep(pause)
		}
	}
}

func (w *worker) once(ctx context.Context, timeout time.Duration, step func(context.Context) error) error {
	w.lab.steps.RLock()
	defer w.lab.steps.RUnlock()
	return within(ctx, timeout, step)
}

// within is a call that is let end, and has a deadline.
func within(ctx context.Context, timeout time.Duration, step func(context.Context) error) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return step(request.WithUser(call, first))
}

// gather lets members list the same at once, again and again, until ctx ends.
func (l *lab) gather(ctx context.Context, members []*worker) {
	each := time.NewTicker(crowdEach)
	defer each.Stop()
	for {
		select {
		case <-each.C:
		case <-ctx.Done():
			return
		}
		l.steps.RLock() // for all: while others pause there are no goroutines of theirs
		var listing sync.WaitGroup
		for i, w := range members {
			as, version := List, ""
			if i%2 == 1 {
				as, version = ListZero, "0"
			}
			listing.Go(func() {
				_ = within(ctx, callTimeout, func(ctx context.Context) error {
					return w.listed(ctx, w.list(ctx, as, crowded, version))
				})
			})
		}
		listing.Wait()
		l.steps.RUnlock()
	}
}

func (w *worker) step(ctx context.Context) error {
	namespace, name := pick(w.random, namespaces), pick(w.random, names)
	listed := namespace
	if w.random.IntN(8) == 0 {
		listed = leaseNamespace
	}
	switch n := w.random.IntN(200); {
	case n < 6:
		return w.create(ctx, podclient.NewPod(namespace, name))
	case n < 14:
		return w.update(ctx, podclient.NewPod(namespace, name))
	case n < 18:
		return w.delete(ctx, namespace, name)
	case n < 22:
		return w.transact(ctx, 0, podclient.NewPod("a", name), podclient.NewPod("b", name))
	case n < 34 && w.name == leasing:
		if err := w.lease(ctx); err != nil {
			return err
		}
		return w.listed(ctx, w.list(ctx, List, leaseNamespace, ""))
	case n < 34:
		return w.read(ctx, w.legacyWatch(ctx))
	case n < 40:
		return w.read(ctx, w.watchList(ctx, namespace, 5*time.Millisecond))
	case n < 90:
		return w.listed(ctx, w.list(ctx, List, listed, ""))
	case n < 120:
		return w.listed(ctx, w.list(ctx, ListZero, listed, "0"))
	case n < 140:
		if w.seenOf != w.lab.acknowledged.Load() {
			return nil // until it has listed the present history
		}
		return w.listed(ctx, w.list(ctx, ListNewer, namespace, w.newest()))
	case n < 175:
		return w.listed(ctx, w.get(ctx, Get, namespace, name, ""))
	default:
		return w.listed(ctx, w.get(ctx, GetZero, namespace, name, "0"))
	}
}

// read counts a read that ended.
func (w *worker) read(ctx context.Context, err error) error {
	w.lab.operations.Add(1)
	if err != nil {
		w.lab.tally.failed(kindOf(ctx, err))
	}
	return err
}

// listed is read for a LIST or a GET. A 429 says that it was refused; to a watch it also says
// that it was not fresh in time.
func (w *worker) listed(ctx context.Context, err error) error {
	if apierrors.IsTooManyRequests(err) {
		w.lab.tally.refused()
	}
	return w.read(ctx, err)
}

// kindOf is an error as a client sees it.
func kindOf(ctx context.Context, err error) string {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && status.Status().Code != 0:
		return strconv.Itoa(int(status.Status().Code))
	case ctx.Err() != nil:
		return "deadline"
	default:
		return "of etcd"
	}
}

// timed makes a call and notes how much it outlived its deadline.
func (w *worker) timed(ctx context.Context, call func(context.Context) error) error {
	err := call(ctx)
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() != nil {
		w.lab.tally.outlived(time.Since(deadline))
	}
	return err
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }
