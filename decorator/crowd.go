package decorator

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// crowdFrom is how many LISTs of a resource must be under way before the answer to one is
// copied for others: a copy costs about half as much as the list.
const crowdFrom = 8

// crowd is the LISTs of a resource that are under way. Those that have waited for the same
// floor all ask the cache at once then, and mostly for the same: they share an answer.
//
// They do by the join rule. Who had arrived before the cache was asked may have the answer,
// if it is not below the caller's own floor; to who arrived later it may be old.
type crowd struct {
	entered, left atomic.Uint64 // LISTs so far; entered is also the number of the newest
	asking        atomic.Bool   // one asks the cache, to share its answer
	answer        atomic.Pointer[sharedAnswer]
}

// sharedAnswer is what the cache answered to a LIST.
type sharedAnswer struct {
	same     string // the fingerprint of the request
	arrived  uint64 // the newest LIST that had arrived before the cache was asked
	revision uint64
	list     runtime.Object // in nobody else's hands
	// passed is the fingerprint of the last LIST that asked for something else; nil where
	// the answer was given since.
	passed atomic.Pointer[string]
}

// passedOver notes that a LIST asked for something else, and reports whether the one before
// asked for the same as this one, which makes that the better answer to share.
func (a *sharedAnswer) passedOver(by string) bool {
	before := a.passed.Swap(&by)
	return before != nil && *before == by
}

// given notes that a LIST had the answer.
func (a *sharedAnswer) given() {
	if a.passed.Load() != nil {
		a.passed.Store(nil)
	}
}

// enter answers the number of a LIST that arrives now. It has to leave.
func (c *crowd) enter() uint64 { return c.entered.Add(1) }

// leave lets go of the answer when as many LISTs have left as had arrived for it. No sooner
// can all who may have it have left; and where some of these wait on, others have left in
// their place, and the answer does not stay for as long as LISTs never stop.
func (c *crowd) leave() {
	left := c.left.Add(1)
	if a := c.answer.Load(); a != nil && left >= a.arrived {
		c.answer.CompareAndSwap(a, nil)
	}
}

// list answers a LIST from the cache, once it may, and where others wait with it maybe with
// what one of them was answered. inner says that err is the inner storage's own.
func (r *read) list(key string, opts *storage.ListOptions, list runtime.Object, floor uint64) (inner bool, err error) {
	s, c := r.store, &r.store.crowd
	if !r.shares() || c.entered.Load()-c.left.Load() < crowdFrom || opts.Predicate.ShardSelector != nil {
		_, inner, err = r.ask(key, opts, list, floor)
		return inner, err
	}
	same := fingerprint(key, opts)
	if a := c.answer.Load(); a != nil && a.same == same && r.number <= a.arrived && floor <= a.revision {
		if r.call(spanShared, func(context.Context) error { return copyList(a.list, list) }) == nil {
			a.given()
			return false, nil
		}
	}
	if !c.asking.CompareAndSwap(false, true) {
		_, inner, err = r.ask(key, opts, list, floor)
		return inner, err
	}
	defer c.asking.Store(false)
	arrived := c.entered.Load()
	revision, inner, err := r.ask(key, opts, list, floor)
	if err != nil || !r.shares() {
		return inner, err
	}
	// Of a crowd that asks for many things the first is shared, so that no other is copied
	// in vain, until nobody has it and two in a row want another.
	if before := c.answer.Load(); before == nil || before.same == same || before.passedOver(same) {
		mine := &sharedAnswer{same: same, arrived: arrived, revision: revision, list: s.resource.NewList()}
		if copyList(list, mine.list) == nil {
			c.answer.Store(mine)
		}
	}
	return false, nil
}

// shares says whether the answer to a LIST may be another's, too: what comes past the cache
// may depend on who asks.
func (r *read) shares() bool {
	return r.store.resource.SharesItems && (!r.pastCache() && !r.raw || r.store.resource.SharesLists)
}

// copyList makes of to what from is. It copies as much of the items as a watch cache does
// for each of its callers: what they point to stays shared.
func copyList(from, to runtime.Object) error {
	fromItems, fromMeta, err := partsOf(from)
	if err != nil {
		return err
	}
	toItems, toMeta, err := partsOf(to)
	if err != nil {
		return err
	}
	if fromItems.Type() != toItems.Type() {
		return fmt.Errorf("decorator: a list that a caller passed and one of Resource.NewList differ: %T and %T", from, to)
	}
	toItems.Set(reflect.AppendSlice(reflect.MakeSlice(fromItems.Type(), 0, fromItems.Len()), fromItems))
	toMeta.SetResourceVersion(fromMeta.GetResourceVersion())
	toMeta.SetContinue(fromMeta.GetContinue())
	toMeta.SetRemainingItemCount(fromMeta.GetRemainingItemCount())
	return nil
}

func partsOf(list runtime.Object) (items reflect.Value, accessor metav1.ListInterface, err error) {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, nil, err
	}
	accessor, err = meta.ListAccessor(list)
	return reflect.ValueOf(pointer).Elem(), accessor, err
}
