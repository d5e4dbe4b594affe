package joinnext

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rvfloor/rvfloor/internal/joinnext/joinrule"
)

// byGroup shares reads by a Group, byInlineGroup by one whose lone callers read by
// themselves.
func byGroup(read joinrule.Read) joinrule.Read       { return group(read, false) }
func byInlineGroup(read joinrule.Read) joinrule.Read { return group(read, true) }

func group(read joinrule.Read, inline bool) joinrule.Read {
	group := New(func(ctx context.Context, _ Call) (uint64, error) { return read(ctx) }, Config{Timeout: time.Minute, Inline: inline})
	return func(ctx context.Context) (uint64, error) {
		result, err := group.Do(ctx, nil)
		if err != nil {
			return 0, err
		}
		return result.Value, nil
	}
}

// byGeneration is the other sound form: singleflight, keyed by a generation
// that each read advances before it is sent. A caller that joins a read has
// looked at the generation before the read advanced it, hence before it was
// sent.
func byGeneration(read joinrule.Read) joinrule.Read {
	var (
		group      singleflight.Group
		generation atomic.Uint64
	)
	return func(ctx context.Context) (uint64, error) {
		key := strconv.FormatUint(generation.Load(), 36)
		done := group.DoChan(key, func() (any, error) {
			generation.Add(1)
			return read(context.WithoutCancel(ctx))
		})
		select {
		case result := <-done:
			revision, _ := result.Val.(uint64)
			return revision, result.Err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// byPlainSingleflight is what is commonly written, and breaks the rule.
func byPlainSingleflight(read joinrule.Read) joinrule.Read {
	var group singleflight.Group
	return func(ctx context.Context) (uint64, error) {
		value, err, _ := group.Do("revision", func() (any, error) { return read(ctx) })
		revision, _ := value.(uint64)
		return revision, err
	}
}

func TestJoinRule(t *testing.T) {
	for name, share := range map[string]func(joinrule.Read) joinrule.Read{
		"group":      byGroup,
		"inline":     byInlineGroup,
		"generation": byGeneration,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := joinrule.Check(share); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestJoinRuleBites: the check is worth something only if it finds the fault
// that it looks for.
func TestJoinRuleBites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := joinrule.Check(byPlainSingleflight)
		if err == nil {
			t.Fatal("plain singleflight was not found to break the join rule")
		}
		t.Log(err)
	})
}
