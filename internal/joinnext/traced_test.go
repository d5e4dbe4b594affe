package joinnext

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// tracee is a Companion by name; who has none is not traced.
type tracee string

func (tracee) Send()          {}
func (n tracee) Traced() bool { return n != "" }

// TestTraced: each call is told of the traced callers that it has, and those who move
// from a call that failed do so once.
func TestTraced(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		var calls [][]Companion
		g := New(func(_ context.Context, call Call) (int64, error) {
			calls = append(calls, call.Traced())
			time.Sleep(time.Second)
			return 0, io.ErrUnexpectedEOF
		}, Config{Timeout: time.Minute, Inline: inline})
		ask := func(names ...tracee) {
			for _, name := range names {
				go func() { _, _ = g.Do(t.Context(), name) }()
				synctest.Wait()
			}
		}
		ask("a")
		ask("b", "", "c")
		time.Sleep(1500 * time.Millisecond) // in the second call
		ask("d")
		time.Sleep(3 * time.Second)
		ask("")
		g.calls.Wait()
		want := [][]Companion{
			{tracee("a")},
			{tracee("a"), tracee("b"), tracee("c")},
			{tracee("b"), tracee("c"), tracee("d")},
			{tracee("d")},
			nil, nil, // the untraced one's two
		}
		if !slices.EqualFunc(calls, want, slices.Equal) {
			t.Errorf("got %q, want %q", calls, want)
		}
	})
}
