package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/rvfloor/rvfloor/decorator"
)

// Backends keeps one decorator.Backend, with its etcd clients and its compactor, for each transport: the resources of one
// etcd cluster share them, those of --etcd-servers-overrides never share with others. A transport is connected by its first
// resource, which waits for that up to 20 s as it would upstream, and closed with its last.
type Backends struct {
	cfg         Config
	dialOptions []grpc.DialOption // more than upstream's, for tests that count
	life        context.Context   // ends with Close; its cause says so
	shut        func() error      // once
	notWired    bool              // by Options: no resource will come
	modeFile    *modeFile         // by Options; nil: none

	mu         sync.Mutex
	closed     bool
	mode       decorator.Mode // of the transports that are still to come, too
	opening    sync.WaitGroup // resources on the way; not added to once closed
	following  sync.WaitGroup // the mode file; likewise
	transports map[transportID]*transport
	resources  map[*resource]struct{}
	closeErrs  []error
}

// New answers an error that names a wrong field of cfg. It connects nothing yet.
func New(cfg Config) (*Backends, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(context.Background())
	b := &Backends{
		cfg:        cfg.withDefaults(),
		life:       life,
		mode:       decorator.ModeVerify,
		transports: map[transportID]*transport{},
		resources:  map[*resource]struct{}{},
	}
	if cfg.Shadow {
		b.mode = decorator.ModeShadow
	}
	b.shut = sync.OnceValue(func() error {
		end(errClosed)
		return b.closeAll()
	})
	return b, nil
}

var errClosed = fmt.Errorf("apiserver: Backends: %w", decorator.ErrClosed)

// Close destroys the storages of all resources, closes every backend and etcd client, and returns when all that was started
// has stopped. Resources that are still being connected fail with decorator.ErrClosed, later ones too; the destroy functions
// that were handed out do nothing any more. Idempotent: a second call answers what the first did. The error is what clients
// and backends answered when they were closed, before or now; they are closed all the same.
func (b *Backends) Close() error { return b.shut() }

func (b *Backends) closeAll() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.opening.Wait() // not for long: what they wait for has ended with life
	b.following.Wait()

	b.mu.Lock()
	left := slices.Collect(maps.Keys(b.resources))
	b.mu.Unlock()
	for _, r := range left {
		r.destroy()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.closeErrs...)
}

// StorageDecorator answers a decorator for generic.RESTOptions: in place of genericregistry.StorageWithCacher, it makes the
// same storage with verified reads. Its destroy function may be called more than once.
func (b *Backends) StorageDecorator() generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		r, err := b.open(spec{
			config: config, prefix: resourcePrefix, keyFunc: keyFunc, newFunc: newFunc, newListFunc: newListFunc,
			attrs: attrs, triggers: triggers, indexers: indexers,
		})
		if err != nil {
			return nil, nil, err
		}
		return r.store, r.destroy, nil
	}
}

// open connects the resource's transport, unless another resource has, and composes its storage.
func (b *Backends) open(s spec) (*resource, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	r, err := b.enter(s.config)
	if err != nil {
		return nil, err
	}
	defer b.opening.Done()
	err = r.transport.open()
	if err == nil {
		b.adoptMode(r.transport)
		err = r.compose(s)
	}
	if err != nil {
		r.destroy()
		return nil, fmt.Errorf("apiserver: storage of %s: %w", s.config.GroupResource, err)
	}
	return r, nil
}

// enter adds a resource to its transport, which may still have to be opened. The caller calls opening.Done.
func (b *Backends) enter(c *storagebackend.ConfigForResource) (*resource, error) {
	id := transportIDOf(c.Transport)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	b.opening.Add(1)
	t := b.transports[id]
	if t == nil {
		t = newTransport(b.life, id, b.nameLocked(id), b.cfg, c, b.dialOptions...)
		b.transports[id] = t
	}
	t.resources++
	r := newResource(t)
	r.layers.add("transport", func() { b.leave(r) })
	b.resources[r] = struct{}{}
	return r, nil
}

// leave takes a resource from its transport. The last one closes it; one that could not be opened is forgotten at once, so
// that who comes next dials again.
func (b *Backends) leave(r *resource) {
	t := r.transport
	failed := t.open() != nil // no wait: r has waited for it
	b.mu.Lock()
	t.resources--
	last := t.resources == 0
	if (last || failed) && b.transports[t.id] == t {
		delete(b.transports, t.id)
	}
	b.mu.Unlock()

	var err error
	if last && !failed {
		err = t.close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.resources, r) // only now: Close waits for what is in there
	if err != nil {
		b.closeErrs = append(b.closeErrs, fmt.Errorf("apiserver: close the transport to %s: %w", t.name, err))
	}
}

// nameLocked is the transport's name, with a number where another has it: the same endpoints with other credentials.
func (b *Backends) nameLocked(id transportID) string {
	taken := map[string]bool{}
	for _, t := range b.transports {
		taken[t.name] = true
	}
	name := id.name()
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s#%d", id.name(), n)
	}
	return name
}
