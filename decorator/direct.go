package decorator

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/joinnext"
)

const (
	// maxDirect is how many quorum lists of one resource may be under way: etcd
	// went from 17 to 180 GB when each caller sent one (kubernetes/kubernetes#138494).
	maxDirect = 5
	// directTimeout bounds one of them. Its callers have deadlines of their own.
	directTimeout = 30 * time.Second
)

// direct lists the raw storage for reads that could not be verified. Equal
// requests share a list by the join rule, so it is as new as the newest of them.
type direct struct {
	resource Resource
	observe  *observer
	slots    chan struct{}

	mu     sync.Mutex
	closed bool
	lists  map[string]*directList
}

type directList struct {
	*joinnext.Group[runtime.Object]
	users int
}

func newDirect(r Resource, o *observer) *direct {
	return &direct{resource: r, observe: o, slots: make(chan struct{}, maxDirect), lists: map[string]*directList{}}
}

// list fills list, with a copy of its own.
func (d *direct) list(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	same := fingerprint(key, opts)
	l := d.enter(same, key, opts)
	if l == nil {
		return newFailure(ErrClosed, nil, false)
	}
	defer d.leave(same, l)
	result, err := l.Do(ctx, nil)
	if err != nil {
		return directFailure(ctx, err)
	}
	from, to := reflect.ValueOf(result.Value.DeepCopyObject()), reflect.ValueOf(list)
	if from.Type() != to.Type() {
		return fmt.Errorf("decorator: Resource.NewList returns %T and the caller passed %T", result.Value, list)
	}
	to.Elem().Set(from.Elem())
	return nil
}

func (d *direct) enter(same, key string, opts storage.ListOptions) *directList {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	l := d.lists[same]
	if l == nil {
		l = &directList{Group: joinnext.New(func(ctx context.Context, _ joinnext.Call) (runtime.Object, error) {
			return d.send(ctx, key, opts)
		}, joinnext.Config{Timeout: directTimeout})}
		d.lists[same] = l
	}
	l.users++
	return l
}

func (d *direct) leave(same string, l *directList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(d.lists, same)
	}
}

func (d *direct) send(ctx context.Context, key string, opts storage.ListOptions) (runtime.Object, error) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		d.observe.directList(outcomeBusy)
		return nil, newFailure(ErrBusy, nil, false)
	}
	list := d.resource.NewList()
	err := d.resource.Raw.GetList(ctx, key, opts, list)
	d.observe.directList(outcomeOfInner(err))
	return list, err
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

// fingerprint is equal for requests that have the same answer.
func fingerprint(key string, opts storage.ListOptions) string {
	p := opts.Predicate
	var b strings.Builder
	fmt.Fprintf(&b, "%q %t %q %q %d %q", key, opts.Recursive, opts.ResourceVersion, opts.ResourceVersionMatch, p.Limit, p.Continue)
	if p.Label != nil {
		fmt.Fprintf(&b, " l%q", p.Label.String())
	}
	if p.Field != nil {
		fmt.Fprintf(&b, " f%q", p.Field.String())
	}
	if p.ShardSelector != nil {
		fmt.Fprintf(&b, " s%q", p.ShardSelector.String())
	}
	return b.String()
}
