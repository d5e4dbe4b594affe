package promise

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/sides"
)

const (
	kills = 3
	// away is how long a killed kine stays away: longer than the deadline of a call.
	away = 2 * callTimeout
	// recovery is how long after kine's return all answer again, at most.
	recovery = 5 * time.Second
	// punctual is what a call may take beyond its deadline; stock's callers may wait 3 s. It
	// and recovery are of the time in which this process runs.
	punctual = time.Second
)

// TestKill kills kine as kill -9 does while clients read and write. No answer is wrong,
// callers fail by their deadlines, and when kine is back all is well soon.
func TestKill(t *testing.T) {
	over(t, func(t *testing.T, b backend) {
		k := start(t, b)
		stores := []storage.Interface{open(t, k.rvfloor(), k.first()), open(t, k.rvfloor(), k.last())}
		l := startLoad(t, k, stores...)
		victim := k.all[len(k.all)-1]
		var longest time.Duration
		for range kills {
			l.await(t, 100)
			victim.Kill()
			failed, down := l.failures.Load(), l.clock.Now()
			for l.failures.Load() == failed || l.clock.Now() < down+away {
				if l.clock.Now() > down+20*away {
					t.Fatal("no call failed while kine was away")
				}
				time.Sleep(pause)
			}
			if err := victim.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			back := l.clock.Now()
			for _, store := range stores {
				awaitAnswer(t, store)
			}
			longest = max(longest, l.clock.Now()-back)
		}
		l.await(t, 100)
		l.finish(t)
		k.judgeRewinds(t)
		t.Logf("all answered %v after kine's return, at most", longest)
		if longest > recovery {
			t.Errorf("that took longer than %v", recovery)
		}
		if l.late > punctual {
			t.Errorf("a call ended %v after its deadline", l.late)
		}
	}, atLength(sqlite), sqlites, atLength(postgres))
}

// await waits until so many more reads were answered.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for until := l.reads.Load() + n; l.reads.Load() < until; sleep(ctx, time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("no reads are answered")
		}
	}
}

// awaitAnswer asks for the newest until there is an answer.
func awaitAnswer(t *testing.T, store storage.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		call, done := context.WithTimeout(ctx, callTimeout)
		err := store.GetList(call, sides.PodPrefix, sides.Everything(""), &example.PodList{})
		done()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(errors.Join(context.Cause(ctx), err))
		}
		sleep(ctx, pause)
	}
}
