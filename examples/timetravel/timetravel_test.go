package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// TestCutOff: B's member has lost the majority, so that not even a floor can be read.
func TestCutOff(t *testing.T) {
	got := told(t, cutOff)
	if err := got.restarted[rvfloor].err; !errors.Is(err, decorator.ErrNoFloor) && !errors.Is(err, decorator.ErrNotReady) {
		t.Errorf("rvfloor fails with %v", err)
	}
}

// TestBehind: floors can be read, and say that the cache is behind.
func TestBehind(t *testing.T) {
	got := told(t, behind)
	if err := got.restarted[rvfloor].err; !errors.Is(err, decorator.ErrNotFresh) {
		t.Errorf("rvfloor fails with %v", err)
	}
}

// told plays a story and asserts what both of them have in common.
func told(t *testing.T, open opener) outcome {
	t.Helper()
	before := goleak.IgnoreCurrent()
	var page bytes.Buffer
	got, err := tell(t.Context(), open, [2]sides.Kind{sides.Stock, sides.Strict}, newTimeline(&page, "a story"))
	if err != nil {
		t.Fatalf("%v\n%s", err, &page)
	}
	awaitEnd(t, before)
	if a := got.restarted[stock]; a.err != nil || !slices.Equal(a.starts, []types.UID{oldUID}) {
		t.Errorf("stock's restarted kubelet: %v, %v; want the old pod started", a, a.err)
	}
	if a := got.restarted[rvfloor]; len(a.starts) > 0 || a.err == nil || a.retryAfter() < 1 {
		t.Errorf("rvfloor's restarted kubelet: %v, %v; want an error with Retry-After", a, a.err)
	}
	for i, a := range got.healed {
		if a.err != nil || len(a.starts) > 0 {
			t.Errorf("%s when healed: %v, %v; want nothing started", sideNames[i], a, a.err)
		}
	}
	if err := got.check(); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"starts the old pod  " + got.restarted[rvfloor].String(), "rvfloor: " + got.restarted[rvfloor].err.Error()} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("no %q in\n%s", part, &page)
		}
	}
	return got
}

// TestStockInstead: with stock in rvfloor's place the program says that it was not as
// claimed.
func TestStockInstead(t *testing.T) {
	before := goleak.IgnoreCurrent()
	err := run(t.Context(), stories[1:], [2]sides.Kind{sides.Stock, sides.Stock}, io.Discard)
	awaitEnd(t, before)
	const want = "rvfloor on the old node: starts the old pod; want an error"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
}

// awaitEnd waits until only the goroutines from before are left. Upstream's
// CacheDelegator leaves one for each consistent list, for three seconds.
func awaitEnd(t *testing.T, before goleak.Option) {
	t.Helper()
	var err error
	for range 20 {
		if err = goleak.Find(before); err == nil { // waits some time itself
			return
		}
	}
	t.Error(err)
}

func TestCheck(t *testing.T) {
	old, moved, none := answer{starts: []types.UID{oldUID}}, answer{starts: []types.UID{newUID}}, answer{}
	later := answer{err: apierrors.NewServerTimeout(schema.GroupResource{Resource: "pods"}, "list", 1)}
	never := answer{err: errors.New("broken")}
	claimed := outcome{
		before:    [2]answer{old, old},
		moved:     [2]answer{moved, moved},
		restarted: [2]answer{old, later},
		healed:    [2]answer{none, none},
	}
	if err := claimed.check(); err != nil {
		t.Errorf("as claimed: %v", err)
	}
	for want, change := range map[string]func(*outcome){
		"stock before":                                func(o *outcome) { o.before[stock] = none },
		"rvfloor on the new node":                     func(o *outcome) { o.moved[rvfloor] = old },
		"stock on the old node":                       func(o *outcome) { o.restarted[stock] = later },
		"rvfloor on the old node":                     func(o *outcome) { o.restarted[rvfloor] = never },
		"rvfloor on the old node: starts the old pod": func(o *outcome) { o.restarted[rvfloor] = old },
		"rvfloor when healed":                         func(o *outcome) { o.healed[rvfloor] = later },
		"stock when healed":                           func(o *outcome) { o.healed[stock] = old },
	} {
		o := claimed
		change(&o)
		if err := o.check(); err == nil || !strings.HasPrefix(err.Error(), want+":") && !strings.HasPrefix(err.Error(), want+";") {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
