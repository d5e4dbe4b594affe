package faultlab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/linear"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// Config says what is run.
type Config struct {
	Seed uint64
	// Operations are made at least, unless they take too long (see patience): each kind of
	// fault happens once meanwhile.
	Operations int
	// Server is what an API server has for a storage.
	Server func(cachedGets bool) sides.Kind
	// Direct is what one more API server has, which asks no cache; nil: there is none.
	Direct sides.Kind
	// Apart judges each kind of read for itself, against all writes.
	Apart bool
}

// Result is what came out of a run.
type Result struct {
	// Reports has one report under "", or one for each kind of read.
	Reports map[string]*linear.Report
	// Sealed is on the resource that cannot always be read. Its reads may fail.
	Sealed     *linear.Report
	Operations int
	// Events and Bookmarks are those of watches, but for initial events and what ends them.
	Events, Bookmarks int
	Took              time.Duration
	Phases            []Phase
	Deadlines         Deadlines
	// Fresh is how long after a member was frozen the server that knows all members
	// answered again with a verified LIST, 0 if it did not while that was waited for;
	// Healed the longest until all servers did after
	// the end of a fault.
	Fresh, Healed time.Duration
}

// patience bounds what is waited for in a run: far above an election or a restart on a
// busy machine.
const patience = time.Minute

const (
	// hold is how long a fault lasts at most.
	hold = 2 * time.Second
	// freshTimeout is how long a member stays frozen for an answer: stock may take 45 s.
	freshTimeout = 10 * time.Second
)

// Run makes one run. The error says what kept it from being one; what was answered
// wrong is in the reports.
func Run(ctx context.Context, cfg Config) (result *Result, err error) {
	l, err := start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	began := time.Now()
	result = &Result{Reports: map[string]*linear.Report{}}
	if err := l.work(ctx, result); err != nil {
		return nil, err
	}
	if _, err := l.endTruth(ctx); err != nil {
		return nil, err
	}
	result.Took, result.Operations = time.Since(began), int(l.operations.Load())
	result.Events, result.Bookmarks = int(l.events.Load()), int(l.bookmarks.Load())
	result.Phases, result.Deadlines = l.tally.result()
	for i, run := range l.runs {
		name := ""
		if cfg.Apart {
			name = string(readings[i])
		}
		result.Reports[name] = run.Check()
	}
	result.Sealed = l.sealed.Check()
	return result, nil
}

// work lets the clients work while each fault happens in its turn.
func (l *lab) work(ctx context.Context, result *Result) (err error) {
	working, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	clients.Go(func() { l.tally.idleTimer(working) })
	l.phase("none")
	for _, s := range l.servers {
		for i := range workers {
			w := l.newWorker(s, i)
			clients.Go(func() { w.work(working) })
		}
		follower := l.newWorker(s, workers)
		clients.Go(func() { follower.follow(working) })
		var members []*worker
		for i := range crowd {
			members = append(members, l.newWorker(s, workers+1+i))
		}
		clients.Go(func() { l.gather(working, members) })
		reader := l.newSealedWorker(s, "client")
		clients.Go(func() { reader.work(working) })
		watcher := l.newSealedWorker(s, "follower")
		clients.Go(func() { watcher.follow(working) })
	}
	random := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	share := int64(l.cfg.Operations / (2 * len(faults)))
	l.awaitOperations(ctx, share, patience)
	before, err := l.count(ctx, l.complete)
	if err != nil {
		return err
	}
	for _, i := range l.order(random) {
		for _, run := range l.runs {
			run.Planned(faults[i].name)
		}
		l.phase(faults[i].name)
		if err := l.suffer(ctx, faults[i], random, share, result); err != nil {
			return fmt.Errorf("faultlab: seed %d: %s: %w", l.cfg.Seed, faults[i].name, err)
		}
		if !l.cfg.Apart || faults[i].name != restored { // else it goes on, with the stock server
			l.phase("none")
		}
		l.awaitOperations(ctx, share, patience)
		if now, err := l.count(ctx, before.covers); err != nil {
			return fmt.Errorf("faultlab: seed %d: after %s: %w: %s", l.cfg.Seed, faults[i].name, err, before.beyond(now))
		}
	}
	l.awaitOperations(ctx, int64(l.cfg.Operations)-l.operations.Load(), patience)
	return nil
}

// order is that of the faults.
func (l *lab) order(random *rand.Rand) []int {
	order := random.Perm(len(faults))
	if l.cfg.Apart { // the stock server does not recover from it
		order = append(slices.DeleteFunc(order, func(i int) bool { return faults[i].name == restored || faults[i].name == restoredSealed }),
			slices.IndexFunc(faults, func(f fault) bool { return f.name == restored }))
	}
	return order
}

func (l *lab) phase(name string) {
	l.tally.phase(name)
	for _, run := range l.all() {
		run.Phase(name)
	}
}

// suffer is one fault from its beginning until all servers answer again.
func (l *lab) suffer(ctx context.Context, f fault, random *rand.Rand, share int64, result *Result) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %v", patience))
	defer cancel()
	struck := time.Now()
	end, err := f.strike(ctx, l, random)
	if err != nil {
		return errors.Join(err, end(ctx))
	}
	for _, run := range l.runs {
		run.Happened(f.name)
	}
	if f.name == "a member is frozen" {
		bounded, cancel := context.WithTimeout(ctx, freshTimeout)
		if l.awaitAnswer(bounded, l.servers[0]) == nil {
			result.Fresh = time.Since(struck)
		}
		cancel()
	}
	if !f.brief {
		l.awaitOperations(ctx, share, hold)
		// Long enough that calls which began under it reach their deadlines.
		sleep(ctx, time.Until(struck.Add(2*callTimeout)))
	}
	if err := end(ctx); err != nil {
		return err
	}
	ended := time.Now()
	if err := l.awaitAnswers(ctx); err != nil {
		return fmt.Errorf("after its end: %w", err)
	}
	result.Healed = max(result.Healed, time.Since(ended))
	if err := l.awaitUnsealed(ctx); err != nil {
		return fmt.Errorf("after its end: %w", err)
	}
	if f.brief {
		l.awaitOperations(ctx, share, hold)
	}
	return nil
}

// awaitOperations waits until so many more operations have ended, or for so long.
func (l *lab) awaitOperations(ctx context.Context, n int64, atMost time.Duration) {
	until := l.operations.Load() + n
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.operations.Load() < until {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// awaitAnswers waits until all servers answer.
func (l *lab) awaitAnswers(ctx context.Context) error {
	for _, s := range l.servers {
		if err := l.awaitAnswer(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// awaitAnswer asks the server for the newest until it answers.
func (l *lab) awaitAnswer(ctx context.Context, s *server) error {
	return until(ctx, s.store, namespaces[0], func(_ *example.PodList, err error) (bool, error) { return err == nil, err })
}

// until lists a namespace at the newest until enough says that the answer, or the error,
// is what is waited for.
func until(ctx context.Context, store storage.Interface, namespace string, enough func(*example.PodList, error) (bool, error)) error {
	for {
		var pods example.PodList
		call, cancel := context.WithTimeout(ctx, callTimeout)
		ok, err := enough(&pods, store.GetList(call, sides.PodPrefix+namespace, sides.Everything(""), &pods))
		cancel()
		if ok {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
