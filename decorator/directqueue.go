package decorator

import (
	linkedlist "container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// maxDirect is how many quorum lists of one resource may be under way: etcd
	// went from 17 to 180 GB when each caller sent one (kubernetes/kubernetes#138494).
	// Lists on their way and copies that are made are as many together: a thousand
	// callers who share a list would otherwise make a thousand copies at once.
	maxDirect = 5
	// maxWaiting is how many callers of one resource may wait for their turn. Each is a
	// request that the API server holds anyway, which costs more than its place here.
	maxWaiting = 10_000
	// copiesPerTurn is how many callers are given a copy in one turn while another flow
	// waits: to decode a list costs about as much as a dozen copies of it.
	copiesPerTurn = 16
)

// direct lists the raw storage for reads that are not answered from the cache.
//
// There are maxDirect places, for lists and for copies of them. Callers who find none free
// wait for their turn, and flows (users, see Config.FlowOf) take turns. So a reader with
// many requests makes others wait for about one list of its own, and not for all of them.
//
// Equal requests share a list where Resource.SharesLists is set, by the join rule: whoever
// has arrived when a list is sent is answered by it, and whoever comes later is not. The next
// of their lists is sent when all callers of the one before have been answered, so no more
// lists are in memory than there are places, apart from those that callers have been given.
type direct struct {
	resource Resource
	// listRaw takes options by value: by pointer to an unknown function those of each LIST would
	// be on the heap, fresh ones too.
	listRaw func(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error
	flowOf  func(context.Context) string
	maxWait time.Duration
	observe *observer
	life    context.Context // ends with close; its cause is ErrClosed
	end     context.CancelCauseFunc
	lists   sync.WaitGroup // under way

	mu      sync.Mutex
	closed  bool
	free    int             // places
	waiting int             // callers whose ask was not sent yet
	byFlow  map[string]int  // likewise, of each flow
	queue   turns[*ask]     // asks that were not sent yet
	open    map[string]*ask // of these the shared ones, by what they ask for
	busy    map[string]*ask // the shared ones that were sent and have callers; equal ones wait
}

// ask is a list that is asked of the storage, for one caller or for several who share it.
type ask struct {
	same string // what equal requests have in common; "": it is not shared
	key  string
	opts storage.ListOptions
	turn chan struct{} // closed when it has a place

	// Of a shared one: closed when it was answered. Then the next three stand.
	answered chan struct{}
	err      error
	several  bool // it was sent for more than one caller

	// Guarded by direct.mu.
	callers  *linkedlist.List // of *directCaller: those who wait for it, or for a copy
	flows    map[string]int   // of the callers
	sent     bool
	listing  bool               // it was sent, and not answered yet
	cancel   context.CancelFunc // ends the list of a shared one
	list     runtime.Object     // nil: not there yet, or not any more
	places   int                // that it has
	copying  int                // places in which a copy is made
	copies   int                // that were made
	wantCopy []*directCaller    // those who wait to make theirs, the next first
	dropped  bool               // the list was let go of for the sake of others
}

// directCaller is a caller of direct.
type directCaller struct {
	ctx     context.Context
	flow    string
	ask     *ask
	at      *linkedlist.Element // in ask.callers
	wake    chan struct{}       // closed when it may make its copy, or the list was dropped
	copying bool                // it makes its copy
	from    runtime.Object      // of what; guarded by direct.mu, as copying is
}

// errDropped tells a caller to ask again.
var errDropped = errors.New("the list was let go of before it was copied")

func newDirect(r Resource, cfg Config, o *observer,
	listRaw func(context.Context, string, storage.ListOptions, runtime.Object) error) *direct {
	d := &direct{
		resource: r, listRaw: listRaw, flowOf: cfg.FlowOf, maxWait: cfg.MaxWait, observe: o,
		free: maxDirect, byFlow: map[string]int{}, open: map[string]*ask{}, busy: map[string]*ask{},
	}
	if d.flowOf == nil {
		d.flowOf = userOf
	}
	d.life, d.end = context.WithCancelCause(context.Background())
	return d
}

// userOf returns the name of the user whose request ctx belongs to, or "" where nobody was
// authenticated.
func userOf(ctx context.Context) string {
	if u, ok := apirequest.UserFrom(ctx); ok && u != nil {
		return u.GetName()
	}
	return ""
}

// close wakes every caller, ends the lists that are under way, and waits for them.
func (d *direct) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end(ErrClosed)
	d.lists.Wait()
}

// enter puts a caller into the queue, and into the ask of equal requests where that is
// shared. The caller has to leave.
func (d *direct) enter(ctx context.Context, same, key string, opts *storage.ListOptions) (*directCaller, error) {
	c := &directCaller{ctx: ctx, flow: d.flowOf(ctx)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	// When all is full, flows that have less than their share may still come.
	if d.waiting >= maxWaiting && d.byFlow[c.flow] >= maxWaiting/len(d.byFlow) {
		d.observe.directList(outcomeBusy)
		return nil, newFailure(ErrBusy, nil, false)
	}
	a := d.open[same]
	if a == nil {
		a = &ask{same: same, key: key, opts: *opts, turn: make(chan struct{}), callers: linkedlist.New(), flows: map[string]int{}}
		if same != "" {
			a.answered = make(chan struct{})
			d.open[same] = a
		}
	}
	c.ask, c.at = a, a.callers.PushBack(c)
	if a.flows[c.flow]++; a.flows[c.flow] == 1 {
		d.queue.add(c.flow, a)
	}
	d.waitsLocked(c.flow, 1)
	d.dispatchLocked()
	return c, nil
}

// await blocks until the ask of c has a place.
func (d *direct) await(c *directCaller, by time.Time) error {
	select {
	case <-c.ask.turn:
		return nil
	default:
	}
	late := time.NewTimer(time.Until(by))
	defer late.Stop()
	for {
		select {
		case <-c.ask.turn:
			return nil
		case <-late.C:
			if d.next(c.ask) {
				late.Reset(d.maxWait)
				continue
			}
			d.observe.directList(outcomeBusy)
			return newFailure(ErrBusy, errTurn, false)
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-d.life.Done():
			return context.Cause(d.life)
		}
	}
}

// next reports whether an ask was sent, or only waits for an equal one to be answered. Neither
// counts as time in the queue.
func (d *direct) next(a *ask) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return a.sent || d.busy[a.same] != nil
}

// leave takes a caller out, who has been answered or has given up.
func (d *direct) leave(c *directCaller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := c.ask
	a.callers.Remove(c.at)
	if a.flows[c.flow]--; a.flows[c.flow] == 0 {
		delete(a.flows, c.flow)
	}
	if !a.sent {
		d.waitsLocked(c.flow, -1)
		if a.flows[c.flow] == 0 {
			d.queue.remove(c.flow, a)
		}
		if a.callers.Len() == 0 && a.same != "" {
			delete(d.open, a.same)
		}
		return
	}
	if c.copying {
		a.copying--
		a.copies++
	}
	a.wantCopy = slices.DeleteFunc(a.wantCopy, func(other *directCaller) bool { return other == c })
	switch {
	case a.same == "":
		a.listing = false
		d.lists.Done()
	case a.callers.Len() == 0:
		a.cancel()
	}
	d.settleLocked(a)
}

// waitsLocked counts callers whose ask was not sent yet.
func (d *direct) waitsLocked(flow string, n int) {
	d.waiting += n
	if d.byFlow[flow] += n; d.byFlow[flow] == 0 {
		delete(d.byFlow, flow)
	}
}

// dispatchLocked gives the places that are free to those whose turn it is.
func (d *direct) dispatchLocked() {
	if d.closed {
		return
	}
	for d.free > 0 {
		a, found := d.queue.next(func(a *ask) bool { return d.busy[a.same] == nil })
		if !found {
			break
		}
		d.free--
		d.sendLocked(a)
	}
	// Where no list may be sent, more copies can be made at once.
	for _, a := range d.busy {
		for d.free > 0 && len(a.wantCopy) > 0 {
			d.free--
			a.places++
			a.wakeLocked()
		}
	}
}

// sendLocked gives an ask its place, and makes the list of a shared one.
func (d *direct) sendLocked(a *ask) {
	for flow, n := range a.flows {
		d.queue.remove(flow, a)
		d.waitsLocked(flow, -n)
	}
	a.places, a.sent, a.listing = 1, true, true
	a.several = a.callers.Len() > 1
	close(a.turn)
	if a.same == "" {
		d.lists.Add(1) // made by its caller, until that leaves
		return
	}
	delete(d.open, a.same)
	d.busy[a.same] = a
	first := a.callers.Front().Value.(*directCaller)
	ctx, cancel := context.WithCancel(context.WithoutCancel(first.ctx))
	a.cancel = cancel
	d.lists.Go(func() { d.makeShared(ctx, a) })
}

// answer ends the list of a shared ask.
func (d *direct) answer(a *ask, made runtime.Object, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.cancel()
	a.listing, a.list, a.err = false, made, err
	close(a.answered)
	d.settleLocked(a)
}

// copyTurn waits until the caller may make its copy of the list of its ask, and returns that.
// whole says that nobody else needs the list: then it is the caller's own.
func (d *direct) copyTurn(c *directCaller) (from runtime.Object, whole bool, err error) {
	d.mu.Lock()
	a := c.ask
	if !a.dropped && a.callers.Len() == 1 {
		defer d.mu.Unlock()
		return a.list, true, nil
	}
	if !a.dropped {
		c.wake = make(chan struct{})
		a.wantCopy = append(a.wantCopy, c)
		d.settleLocked(a)
		d.mu.Unlock()
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return nil, false, context.Cause(c.ctx)
		}
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	if !c.copying {
		return nil, false, errDropped
	}
	return c.from, false, nil
}

// wakeLocked lets the next caller make its copy.
func (a *ask) wakeLocked() {
	c := a.wantCopy[0]
	a.wantCopy = a.wantCopy[1:]
	a.copying++
	c.copying, c.from = true, a.list
	close(c.wake)
}

// settleLocked decides who has the places of an ask after something about it has changed: its
// own callers for their copies, or others. An ask whose turn has lasted long enough is dropped
// where a flow waits that has no part in it: those who have no copy yet ask again.
func (d *direct) settleLocked(a *ask) {
	if a.listing {
		return
	}
	left := a.callers.Len()
	if !a.dropped && a.copies >= copiesPerTurn && left > a.copying && d.queue.others(a.flows) {
		a.dropped = true
		for _, c := range a.wantCopy {
			close(c.wake)
		}
		a.wantCopy = nil
	}
	keep := a.places
	switch {
	case left == 0 || a.dropped:
		keep, a.list = a.copying, nil
		if d.busy[a.same] == a {
			delete(d.busy, a.same)
		}
	case len(a.wantCopy) == 0 || !d.queue.empty():
		keep = max(a.copying, 1)
	}
	d.free += a.places - keep
	a.places = keep
	for len(a.wantCopy) > 0 && a.copying < a.places {
		a.wakeLocked()
	}
	d.dispatchLocked()
}
