package decorator

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/joinnext"
)

const (
	// maxDirect is how many quorum lists of one resource may be under way: etcd
	// went from 17 to 180 GB when each caller sent one (kubernetes/kubernetes#138494).
	// Lists on their way and copies that are made are as many together: a thousand
	// callers who share a list would else make a thousand copies at once.
	maxDirect = 5
	// directTimeout bounds one of them. Its callers have deadlines of their own.
	directTimeout = 30 * time.Second
)

// direct lists the raw storage for reads that could not be verified. Equal
// requests share a list by the join rule, so it is as new as the newest of them.
//
// At most maxDirect different requests are served at once; others are refused before
// they cost anything. Each keeps its newest list while somebody waits for a copy, and
// has one on its way: so there are never more than 2 times maxDirect lists in memory,
// those that callers have been given aside.
type direct struct {
	resource Resource
	observe  *observer
	turns    chan struct{} // places for what lists or copies

	mu     sync.Mutex
	closed bool
	lists  map[string]*directList // at most maxDirect
}

// directList is what equal requests share.
type directList struct {
	*joinnext.Group[struct{}]
	users  int
	newest atomic.Pointer[runtime.Object]
}

func newDirect(r Resource, o *observer) *direct {
	return &direct{resource: r, observe: o, turns: make(chan struct{}, maxDirect), lists: map[string]*directList{}}
}

// list fills list, with a copy of its own.
func (d *direct) list(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	same := fingerprint(key, &opts)
	l, err := d.enter(same, key, opts)
	if err != nil {
		return err
	}
	defer d.leave(same, l)
	if _, err := l.Do(ctx, nil); err != nil {
		return directFailure(ctx, err)
	}
	if err := d.turn(ctx); err != nil {
		return directFailure(ctx, err)
	}
	defer d.over()
	// Not the list that was waited for: a newer one is as good, and those who wait for
	// their turn keep no older one in memory.
	newest := *l.newest.Load()
	from, to := reflect.ValueOf(newest.DeepCopyObject()), reflect.ValueOf(list)
	if from.Type() != to.Type() {
		return fmt.Errorf("decorator: Resource.NewList returns %T and the caller passed %T", newest, list)
	}
	to.Elem().Set(from.Elem())
	return nil
}

// turn waits for one, which over ends.
func (d *direct) turn(ctx context.Context) error {
	select {
	case d.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *direct) over() { <-d.turns }

func (d *direct) enter(same, key string, opts storage.ListOptions) (*directList, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, newFailure(ErrClosed, nil, false)
	}
	l := d.lists[same]
	if l == nil {
		if len(d.lists) == maxDirect {
			d.observe.directList(outcomeBusy)
			return nil, newFailure(ErrBusy, nil, false)
		}
		l = &directList{}
		l.Group = joinnext.New(func(ctx context.Context, _ joinnext.Call) (struct{}, error) {
			if !d.stay(l) {
				return struct{}{}, joinnext.ErrAbandoned
			}
			defer d.leave(same, l)
			if err := d.turn(ctx); err != nil {
				return struct{}{}, err
			}
			defer d.over()
			list := d.resource.NewList()
			err := d.resource.Raw.GetList(ctx, key, opts, list)
			d.observe.directList(outcomeOfInner(err))
			if err == nil {
				l.newest.Store(&list)
			}
			return struct{}{}, err
		}, joinnext.Config{Timeout: directTimeout})
		d.lists[same] = l
	}
	l.users++
	return l, nil
}

// stay counts the call itself, which a storage may end long after its callers have
// gone. It is false when they went before it was sent.
func (d *direct) stay(l *directList) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.users == 0 {
		return false
	}
	l.users++
	return true
}

func (d *direct) leave(same string, l *directList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(d.lists, same)
	}
}

func (d *direct) close() {
	d.mu.Lock()
	d.closed = true
	lists := d.lists
	d.lists = nil
	d.mu.Unlock()
	for _, l := range lists {
		l.Close()
	}
}

// fingerprint is equal for requests that have the same answer, and for no others. It is
// made for each LIST of a crowd, so it does without fmt.
func fingerprint(key string, opts *storage.ListOptions) string {
	p := &opts.Predicate
	print := strconv.AppendBool(make([]byte, 0, 128), opts.Recursive)
	print = strconv.AppendInt(print, p.Limit, 10)
	add := func(kind byte, text string) {
		print = append(strconv.AppendInt(append(print, kind), int64(len(text)), 10), ':')
		print = append(print, text...)
	}
	add('k', key)
	add('v', opts.ResourceVersion)
	add('m', string(opts.ResourceVersionMatch))
	add('c', p.Continue)
	if p.Label != nil && !p.Label.Empty() {
		add('l', p.Label.String())
	}
	if p.Field != nil && !p.Field.Empty() {
		add('f', p.Field.String())
	}
	if p.ShardSelector != nil {
		add('s', p.ShardSelector.String())
	}
	return string(print)
}

// goesOnDirectly says that a list goes on from one that was a quorum list, and is to be one
// too: under StrategyDirect, where caches may lack events, and else at a revision that the
// cache has not reached: upstream would wait for it, for 3 s and maybe in vain.
func (s *Store) goesOnDirectly(opts *storage.ListOptions) bool {
	if opts.Predicate.Continue == "" || s.resource.Raw == nil || s.backend.Mode() != ModeVerify {
		return false
	}
	_, at, err := storage.DecodeContinue(opts.Predicate.Continue, s.router.prefix)
	switch {
	case err != nil || at <= 0:
		return false
	case s.wrong.Load() != nil, s.backend.chooser.present().first(s.resource.Feed) == StrategyDirect:
		return true
	}
	return s.backend.cfg.OnUnverified == UnverifiedDirect && uint64(at) > s.stream.Revision()
}
