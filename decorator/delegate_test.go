package decorator

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
)

// recorder is a storage that notes every call with its arguments. A method that
// upstream adds to storage.Interface fails to compile here, and so is looked at.
type recorder struct{ calls []call }

type call struct {
	method string
	args   []any
}

// errRecorded is what every call returns that can.
var errRecorded = errors.New("recorded")

func (r *recorder) note(method string, args ...any) {
	r.calls = append(r.calls, call{method, args})
}

func (r *recorder) Versioner() storage.Versioner {
	r.note("Versioner")
	return storage.APIObjectVersioner{}
}

func (r *recorder) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	r.note("Create", ctx, key, obj, out, ttl)
	return errRecorded
}

func (r *recorder) Delete(ctx context.Context, key string, out runtime.Object, p *storage.Preconditions,
	v storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	r.note("Delete", ctx, key, out, p, v, cached, opts)
	return errRecorded
}

func (r *recorder) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	r.note("Watch", ctx, key, opts)
	return nil, errRecorded
}

func (r *recorder) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	r.note("Get", ctx, key, opts, out)
	return errRecorded
}

func (r *recorder) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	r.note("GetList", ctx, key, opts, list)
	return errRecorded
}

func (r *recorder) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	p *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	r.note("GuaranteedUpdate", ctx, key, destination, ignoreNotFound, p, update, cached)
	return errRecorded
}

func (r *recorder) Stats(ctx context.Context) (storage.Stats, error) {
	r.note("Stats", ctx)
	return storage.Stats{}, errRecorded
}

func (r *recorder) ReadinessCheck() error {
	r.note("ReadinessCheck")
	return nil // ready, so that a gated call comes to its floor
}

func (r *recorder) RequestWatchProgress(ctx context.Context) error {
	r.note("RequestWatchProgress", ctx)
	return errRecorded
}

func (r *recorder) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	r.note("GetCurrentResourceVersion", ctx)
	return 0, errRecorded
}

func (r *recorder) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	r.note("EnableResourceSizeEstimation", keys)
	return errRecorded
}

func (r *recorder) CompactRevision() int64 {
	r.note("CompactRevision")
	return 1234
}

// distinct is an argument of a type, with values that a mix-up would show.
func distinct(t *testing.T, of reflect.Type) any {
	t.Helper()
	switch of {
	case reflect.TypeFor[context.Context]():
		return t.Context()
	case reflect.TypeFor[string]():
		return "/pods/ns/a"
	case reflect.TypeFor[runtime.Object]():
		return &example.Pod{}
	case reflect.TypeFor[uint64]():
		return uint64(1234)
	case reflect.TypeFor[bool]():
		return true
	case reflect.TypeFor[*storage.Preconditions]():
		return storage.NewUIDPreconditions("uid")
	case reflect.TypeFor[storage.ValidateObjectFunc]():
		return storage.ValidateObjectFunc(storage.ValidateAllObjectFunc)
	case reflect.TypeFor[storage.UpdateFunc]():
		return storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return nil, errUpdate })
	case reflect.TypeFor[storage.KeysFunc]():
		return storage.KeysFunc(func(context.Context) ([]string, error) { return nil, nil })
	case reflect.TypeFor[storage.DeleteOptions]():
		return storage.DeleteOptions{ExpectTransformOrDecodeError: true}
	case reflect.TypeFor[storage.GetOptions]():
		return storage.GetOptions{ResourceVersion: "0", IgnoreNotFound: true}
	case reflect.TypeFor[storage.ListOptions]():
		return everything("0")
	}
	t.Fatalf("storage.Interface takes a %v now: say here what to pass", of)
	return nil
}

var errUpdate = errors.New("from the caller's update")

// same compares arguments, functions by their code, and updates, which a Store looks at as
// they go by, by what they do.
func same(a, b any) bool {
	if x, is := a.(storage.UpdateFunc); is {
		_, _, got := x(&example.Pod{}, storage.ResponseMeta{})
		_, _, want := b.(storage.UpdateFunc)(&example.Pod{}, storage.ResponseMeta{})
		return got == want && want == errUpdate
	}
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Func && y.Kind() == reflect.Func {
		return x.Pointer() == y.Pointer()
	}
	if x.Kind() == reflect.Pointer && y.Kind() == reflect.Pointer {
		return x.Pointer() == y.Pointer()
	}
	return reflect.DeepEqual(a, b)
}

// delegates calls every method of storage.Interface on what decorate makes, without
// a floor to be had: all but those in changed must reach the inner storage exactly
// once, with their arguments and with its answer. Those whose value is true must not
// reach it.
func delegates(t *testing.T, changed map[string]bool, decorate func(*testing.T, *Backend, storage.Interface) storage.Interface) {
	t.Helper()
	iface := reflect.TypeFor[storage.Interface]()
	if iface.NumMethod() == 0 {
		t.Fatal("storage.Interface has no methods")
	}
	left := maps.Clone(changed)
	for m := range iface.Methods() {
		t.Run(m.Name, func(t *testing.T) {
			source := freshness.SourceFunc(func(context.Context) (uint64, error) { return 0, errNoQuorum })
			b, err := NewBackend(Config{Source: source})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			inner := &recorder{}
			outer := decorate(t, b, inner)
			inner.calls = nil
			var in []reflect.Value
			var args []any
			for of := range m.Type.Ins() {
				args = append(args, distinct(t, of))
				in = append(in, reflect.ValueOf(args[len(args)-1]))
			}
			results := reflect.ValueOf(outer).MethodByName(m.Name).Call(in)
			var reached []call
			for _, c := range inner.calls {
				if c.method == m.Name {
					reached = append(reached, c)
				}
			}
			if gated, known := changed[m.Name]; known {
				delete(left, m.Name)
				if gated && len(reached) > 0 {
					t.Errorf("it reached the inner storage without a floor: %v", reached)
				}
				return
			}
			if len(inner.calls) != 1 || len(reached) != 1 {
				t.Fatalf("the inner storage was called %v, want %s once", inner.calls, m.Name)
			}
			if !slices.EqualFunc(reached[0].args, args, same) {
				t.Errorf("the inner storage got %v, want %v", reached[0].args, args)
			}
			last := results[len(results)-1].Interface()
			if err, is := last.(error); is && err != errRecorded || last == int64(0) || last == nil && m.Name != "ReadinessCheck" {
				t.Errorf("it returned %v, which is not the inner storage's answer", last)
			}
		})
	}
	if len(left) > 0 {
		t.Errorf("storage.Interface has no %v", slices.Sorted(maps.Keys(left)))
	}
}

// TestStoreDelegates: the routed methods are Get, GetList and Watch. Each of them is
// gated, and every other goes to the inner storage as it is.
func TestStoreDelegates(t *testing.T) {
	routed := map[string]bool{"Get": true, "GetList": true, "Watch": true}
	delegates(t, routed, func(t *testing.T, b *Backend, inner storage.Interface) storage.Interface {
		s, err := b.Wrap(inner, Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	for method := range routed {
		t.Run(method+" is gated", func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				r.failFloors(errNoQuorum)
				verb := map[string]string{"Get": "get", "GetList": "list", "Watch": "watch"}[method]
				if err := reads("0")[verb](t.Context(), r.store); !errors.Is(err, ErrNoFloor) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestShownDelegates: of what callers may reach of a storage nothing is changed but what is
// in its lists.
func TestShownDelegates(t *testing.T) {
	delegates(t, nil, func(_ *testing.T, b *Backend, inner storage.Interface) storage.Interface {
		return shown{inner, b}
	})
}

// TestUnwrap: optional methods of a storage are found by walking down.
func TestUnwrap(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		if r.store.Unwrap() != r.inner || r.feed.Unwrap() != storage.Interface(r.cached) {
			t.Error("Unwrap is not what was wrapped")
		}
	})
}

// TestWritesRaiseTheFloor: after a write of our own was acknowledged, a read of the
// Source that is below it is a rewind.
func TestWritesRaiseTheFloor(t *testing.T) {
	for name, write := range map[string]func(context.Context, *Store) error{
		"Create": func(ctx context.Context, s *Store) error {
			return s.Create(ctx, "/pods/ns/b", pod("ns", "b"), &example.Pod{}, 0)
		},
		"GuaranteedUpdate": func(ctx context.Context, s *Store) error {
			return s.GuaranteedUpdate(ctx, "/pods/ns/a", &example.Pod{}, false, nil,
				storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
					o.(*example.Pod).Labels = map[string]string{"x": "y"}
					return o, nil
				}), nil)
		},
		"Delete": func(ctx context.Context, s *Store) error {
			return s.Delete(ctx, "/pods/ns/a", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(t *testing.T, r *rig) {
				old := r.put("a")
				settled()
				r.cached.Hold() // so that the cache does not tell of it
				if err := write(t.Context(), r.store); err != nil {
					t.Fatal(err)
				}
				r.writer.OnRevision(func(context.Context, uint64) (uint64, error) { return old, nil })
				_, err := list(t.Context(), r.store, everything(""))
				if rewound, ok := errors.AsType[*RewoundError](err); !ok || rewound.Seen != old+1 || rewound.Read != old {
					t.Errorf("got %v, want a rewind from %d to %d", err, old+1, old)
				}
			})
		})
	}
}
