package progress

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// callTap counts.
type callTap struct {
	Tap
	calls int
}

func (c *callTap) Called() { c.calls++ }

// TestCallTap: it hears of what clientv3 does with a context, and of nothing else.
func TestCallTap(t *testing.T) {
	tap := &callTap{}
	type key struct{}
	ctx := WithTap(context.WithValue(t.Context(), key{}, "value"), tap)
	ctx, cancel := context.WithCancel(ctx)
	if ctx.Value(key{}) != "value" || tap.calls != 0 {
		t.Errorf("%v, %d calls", ctx.Value(key{}), tap.calls)
	}
	clientv3.WithRequireLeader(ctx)
	if tap.calls == 0 {
		t.Error("it did not hear of a call")
	}
	cancel()
	if ctx.Err() == nil {
		t.Error("the context goes on")
	}
	clientv3.WithRequireLeader(WithTap(t.Context(), Tap(nil))) // one that does not want to hear
}
