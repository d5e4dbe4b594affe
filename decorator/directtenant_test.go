package decorator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

type tenantOf struct{}

// tenantRaw answers a read with what the tenant of its context has: of all pods those of the
// namespace with the tenant's name. Without a tenant it shows everything, as a storage for
// administrators may.
type tenantRaw struct {
	storage.Interface
	held chan struct{} // lists are answered when it is closed
}

func (s *tenantRaw) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if s.held != nil {
		<-s.held
	}
	if tenant, ok := ctx.Value(tenantOf{}).(string); ok {
		opts.Predicate = storage.SelectionPredicate{
			Label: labels.Everything(), Field: fields.OneTermEqualSelector("metadata.namespace", tenant), GetAttrs: podAttrs,
		}
	}
	return s.Interface.GetList(ctx, key, opts, list)
}

func (s *tenantRaw) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	if tenant, ok := ctx.Value(tenantOf{}).(string); ok {
		key = "/pods/" + tenant + "/a"
	}
	return s.Interface.Get(ctx, key, opts, out)
}

func (r *rig) putFor(tenants ...string) {
	for _, tenant := range tenants {
		p := pod(tenant, "a")
		r.txn(memstorage.Put(podKey(p), p))
	}
}

// TestDirectTenants: what the storage reads from a caller's context reaches it, and callers
// do not share a quorum list unless the owner of the storage says that it is the same for all.
func TestDirectTenants(t *testing.T) {
	for name, cfg := range map[string]Config{
		"strategy": {Strategy: StrategyDirect},
		"policy":   {OnUnverified: UnverifiedDirect},
	} {
		t.Run(name, func(t *testing.T) {
			raw := &tenantRaw{}
			bubble(t, setup{cfg: cfg, raw: func(s storage.Interface) storage.Interface { raw.Interface = s; return raw }}, func(t *testing.T, r *rig) {
				tenants := []string{"red", "blue", "green"}
				r.putFor(tenants...)
				settled()
				r.cached.Hold()
				r.memory.Bump()
				raw.held = make(chan struct{})
				ask := func(tenant string) {
					ctx := context.WithValue(t.Context(), tenantOf{}, tenant)
					pods, err := list(ctx, r.store, everything("0"))
					if err != nil {
						t.Errorf("%s: %v", tenant, err)
					}
					for _, p := range pods.Items {
						if p.Namespace != tenant {
							t.Errorf("%s was shown what %s has", tenant, p.Namespace)
						}
					}
					if len(pods.Items) != 1 {
						t.Errorf("%s was shown %d pods, want its own", tenant, len(pods.Items))
					}
					var p example.Pod
					if err := r.store.Get(ctx, "/pods/any/a", storage.GetOptions{ResourceVersion: "0"}, &p); err != nil || p.Namespace != tenant {
						t.Errorf("%s got a pod of %q, %v", tenant, p.Namespace, err)
					}
				}
				var done sync.WaitGroup
				for range 4 {
					for _, tenant := range tenants {
						done.Go(func() { ask(tenant) })
					}
				}
				if settled(); cfg.Strategy == "" {
					unverified()
				}
				close(raw.held)
				done.Wait()
				ask("red") // with nobody beside it
			})
		})
	}
}

// TestDirectContexts: a list that is one caller's own is made with that caller's context, one
// that is shared with the values of the first who waits, and it does not end with that one.
func TestDirectContexts(t *testing.T) {
	for name, alike := range map[string]bool{"own": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			gate := &turnstile{}
			wrap := func(raw storage.Interface) storage.Interface { gate.Interface = raw; return gate }
			bubble(t, setup{cfg: Config{Strategy: StrategyDirect}, alike: alike, raw: wrap}, func(t *testing.T, r *rig) {
				r.put("a")
				release := make(chan struct{})
				var seen []string
				var ended []error
				gate.onList = func(ctx context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
					seen = append(seen, fmt.Sprint(ctx.Value(tenantOf{})))
					select {
					case <-release:
					case <-ctx.Done():
						ended = append(ended, context.Cause(ctx))
						return ctx.Err()
					}
					return pass()
				}
				hungUp := errors.New("hung up")
				ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), tenantOf{}, "first"))
				answers := make(chan error, 3)
				ask := func(ctx context.Context) {
					go func() {
						_, err := list(ctx, r.store, everything(""))
						answers <- err
					}()
					settled()
				}
				ask(ctx)
				for _, name := range []string{"second", "third"} {
					ask(context.WithValue(t.Context(), tenantOf{}, name))
				}
				cancel(hungUp)
				if err := <-answers; err != context.Canceled {
					t.Errorf("the first: %v", err)
				}
				settled()
				close(release)
				for range 2 {
					if err := <-answers; err != nil {
						t.Error(err)
					}
				}
				// Of the shared ones the second is for those who came after the first was sent.
				want := map[bool][]string{false: {"first", "second", "third"}, true: {"first", "second"}}[alike]
				if !slices.Equal(seen, want) {
					t.Errorf("lists were made for %q, want %q", seen, want)
				}
				if len(ended) != 1 || !alike && ended[0] != hungUp {
					t.Errorf("lists were ended by %v: that of the first, once nobody waits for it", ended)
				}
				r.checkIdle()
			})
		})
	}
}

// TestSharedListOutlivesItsSender: a list goes on for those who share it with a caller who has
// gone, and has that caller's deadline no more.
func TestSharedListOutlivesItsSender(t *testing.T) {
	directRig(t, func(t *testing.T, r *rig, gate *turnstile) {
		gate.onList = func(ctx context.Context, _ storage.ListOptions, _ runtime.Object, pass func() error) error {
			gate.lists.Add(1)
			select {
			case <-gate.release:
				return pass()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		opts := everything("")
		for i := range maxDirect { // no place is free
			go func() {
				opts := opts
				opts.Predicate.Limit = int64(100 + i)
				_, _ = list(t.Context(), r.store, opts)
			}()
		}
		unverified()
		ctx, cancel := context.WithTimeout(t.Context(), 2*defaultMaxWait+time.Second)
		defer cancel()
		answers := make(chan error, 2)
		ask := func(ctx context.Context) {
			_, err := list(ctx, r.store, opts)
			answers <- err
		}
		go ask(ctx)
		settled()
		go ask(t.Context())
		unverified()
		gate.release <- struct{}{} // their turn: both share a list
		settled()
		if got := gate.lists.Load(); got != maxDirect+1 {
			t.Fatalf("%d lists were sent", got)
		}
		if err := <-answers; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the sender got %v", err)
		}
		close(gate.release)
		if err := <-answers; err != nil {
			t.Errorf("the other got %v", err)
		}
		settled()
		if got := gate.lists.Load(); got != maxDirect+1 {
			t.Errorf("%d lists were sent", got)
		}
		r.checkIdle()
	})
}

// TestCrowdKeepsTenantsApart: an answer of the storage, which a LIST gets while its cache is
// filled, is nobody else's.
func TestCrowdKeepsTenantsApart(t *testing.T) {
	for _, held := range []bool{false, true} {
		crowdOfTenants(t, held)
	}
}

func crowdOfTenants(t *testing.T, held bool) {
	raw := &tenantRaw{}
	s := setup{filling: true, raw: func(s storage.Interface) storage.Interface { raw.Interface = s; return raw }}
	bubble(t, s, func(t *testing.T, r *rig) {
		if held {
			raw.held = make(chan struct{})
		}
		tenants := []string{"red", "blue"}
		r.putFor(tenants...)
		var done sync.WaitGroup
		for range 2 * crowdFrom {
			for _, tenant := range tenants {
				done.Go(func() {
					opts := everything("")
					opts.Predicate.Limit = 100
					pods, err := list(context.WithValue(t.Context(), tenantOf{}, tenant), r.store, opts)
					if err != nil || len(pods.Items) != 1 || pods.Items[0].Namespace != tenant {
						t.Errorf("%s: got %v, %v", tenant, pods.Items, err)
					}
				})
			}
		}
		settled()
		if held {
			close(raw.held)
		}
		done.Wait()
	})
}
