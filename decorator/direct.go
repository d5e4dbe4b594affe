package decorator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/guard"
)

// directTimeout bounds a quorum list. Its callers have deadlines of their own.
const directTimeout = 30 * time.Second

var (
	errDirectTimeout = fmt.Errorf("the storage did not answer: %w", context.DeadlineExceeded)
	errDirectExited  = errors.New("the storage ended the goroutine of the list")
	errTurn          = errors.New("the longest wait for a turn is over")
)

// list fills list from the raw storage, with objects of its own. A turn is waited for until
// by, however long the list takes then.
func (d *direct) list(ctx context.Context, by time.Time, key string, opts *storage.ListOptions, list runtime.Object) error {
	if !d.resource.SharesLists {
		return directFailure(ctx, d.listAlone(ctx, by, key, opts, list))
	}
	for retried := false; ; {
		retry, err := d.listShared(ctx, by, key, opts, list)
		switch {
		case errors.Is(err, errDropped):
			by = time.Now().Add(d.maxWait)
		case retry && !retried:
			retried = true
		default:
			return directFailure(ctx, err)
		}
	}
}

// listAlone makes a list for one caller: with its own context, and into its own object.
func (d *direct) listAlone(ctx context.Context, by time.Time, key string, opts *storage.ListOptions, list runtime.Object) error {
	c, err := d.enter(ctx, "", key, opts)
	if err != nil {
		return err
	}
	defer d.leave(c)
	if err := d.await(c, by); err != nil {
		return err
	}
	return d.send(ctx, key, opts, list)
}

// listShared waits for a list that equal requests share, and makes a copy of it. It says that
// another try is due where the list failed and was not this caller's alone: that may have been
// the bad luck of one call, or of the caller in whose name it was made.
func (d *direct) listShared(ctx context.Context, by time.Time, key string, opts *storage.ListOptions, list runtime.Object) (retry bool, err error) {
	c, err := d.enter(ctx, fingerprint(key, opts), key, opts)
	if err != nil {
		return false, err
	}
	defer d.leave(c)
	if err := d.await(c, by); err != nil {
		return false, err
	}
	select {
	case <-c.ask.answered:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-d.life.Done(): // the storage may end the list much later
		return false, context.Cause(d.life)
	}
	if err := c.ask.err; err != nil {
		return c.ask.several && !errors.Is(err, errDirectTimeout), err
	}
	from, whole, err := d.copyTurn(c)
	if err != nil {
		return false, err
	}
	if reflect.TypeOf(from) != reflect.TypeOf(list) {
		return false, fmt.Errorf("decorator: Resource.NewList returns %T and the caller passed %T", from, list)
	}
	if !whole {
		from = from.DeepCopyObject()
	}
	reflect.ValueOf(list).Elem().Set(reflect.ValueOf(from).Elem())
	return false, nil
}

// makeShared makes the list of an ask that several may wait for. ctx has the values of the
// first of them, who would have made this list without the others: so what the storage traces,
// logs and counts by its context goes to a request that asked for it, and not to one that
// happened to come along. It does not end with that caller.
func (d *direct) makeShared(ctx context.Context, a *ask) {
	var made runtime.Object
	err := errDirectExited
	defer func() { d.answer(a, made, err) }()
	err = guard.Call(func() error {
		made = d.resource.NewList()
		return d.send(ctx, a.key, &a.opts, made)
	})
}

// send lists the storage.
func (d *direct) send(ctx context.Context, key string, opts *storage.ListOptions, list runtime.Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, directTimeout, errDirectTimeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(d.life, func() { end(context.Cause(d.life)) })()
	err := d.listRaw(ctx, key, *opts, list)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // says more than the storage can know
	}
	d.observe.directList(outcomeOfInner(err))
	return err
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

// goesOnDirectly reports whether a list continues a quorum list and must be one itself: past a
// cache that is not to be relied on, under StrategyDirect, where caches may lack events, and else
// at a revision that the cache has not reached: upstream would wait for it, for 3 s and maybe in
// vain.
func (s *Store) goesOnDirectly(opts *storage.ListOptions) bool {
	if opts.Predicate.Continue == "" || s.resource.Raw == nil || s.backend.Mode() != ModeVerify {
		return false
	}
	_, at, err := storage.DecodeContinue(opts.Predicate.Continue, s.router.prefix)
	switch {
	case err != nil || at <= 0:
		return false
	case s.unfit(), s.backend.chooser.present().first(s.resource.Feed) == StrategyDirect:
		return true
	}
	policy := s.backend.cfg.OnUnverified
	return (policy == UnverifiedDirect || policy == UnverifiedQuorum) && uint64(at) > s.stream.Revision()
}

// turnBy returns until when a read that failed with err waits for its turn with the storage:
// as long as reads wait for a cache. Where the cache was waited for in vain, that begins now.
func (r *read) turnBy(err error) time.Time {
	begins := r.arrived
	if !errors.Is(err, errDirect) {
		begins = time.Now()
	}
	return begins.Add(r.store.backend.cfg.MaxWait)
}
