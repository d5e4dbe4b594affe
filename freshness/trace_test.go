package freshness

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"
)

type tracee bool

func (tracee) Send()          {}
func (t tracee) Traced() bool { return bool(t) }

// TestTrace: the hook hears of a read only where a caller of it is traced, gives the
// source its context, and is told how the read went.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var in []any
		failing := errors.New("no quorum")
		src := SourceFunc(func(ctx context.Context) (uint64, error) {
			in = append(in, ctx.Value(key{}))
			return uint64(len(in)), map[int]error{2: failing}[len(in)]
		})
		var told, traced []ReadInfo
		floors := newFloors(t, src, Config{Hooks: Hooks{
			Read: func(info ReadInfo) { told = append(told, info) },
			Trace: func(ctx context.Context, callers []Companion) (context.Context, func(ReadInfo)) {
				return context.WithValue(ctx, key{}, callers[0]), func(info ReadInfo) { traced = append(traced, info) }
			},
		}})
		for _, caller := range []tracee{false, true} { // the second's first read fails
			if _, err := floors.WithinBeside(t.Context(), 0, caller); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := floors.WithinBeside(t.Context(), time.Hour, tracee(true)); err != nil {
			t.Fatal(err)
		}
		if want := []any{nil, tracee(true), tracee(true)}; !reflect.DeepEqual(in, want) {
			t.Errorf("the source was read in %v, want %v", in, want)
		}
		if !reflect.DeepEqual(traced, told[1:]) || traced[0].Err != failing {
			t.Errorf("traced %+v of %+v", traced, told)
		}
	})
}
