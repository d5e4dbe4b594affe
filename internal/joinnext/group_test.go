package joinnext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rvfloor/rvfloor/internal/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is what a test's calls reach. Each call takes a second of the
// bubble's clock, unless its context ends first, and fails with err from the
// call number failFrom on.
type backend struct {
	err      error
	failFrom int64
	calls    atomic.Int64
	inFlight atomic.Int64
	causes   chan error // why contexts ended early
}

func newBackend() *backend { return &backend{causes: make(chan error, 10)} }

func (b *backend) call(ctx context.Context, _ Call) (int64, error) {
	if b.inFlight.Add(1) > 1 {
		return 0, errors.New("two calls in flight")
	}
	defer b.inFlight.Add(-1)
	number := b.calls.Add(1)
	select {
	case <-time.After(time.Second):
		if number < b.failFrom {
			return number, nil
		}
		return number, b.err
	case <-ctx.Done():
		b.causes <- context.Cause(ctx)
		return 0, ctx.Err()
	}
}

// answer is what a caller got, and when.
type answer struct {
	result *Result[int64]
	err    error
	after  time.Duration
}

// ask starts a caller, waits until it is blocked, and returns where its answer
// will be.
func ask(ctx context.Context, g *Group[int64]) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		start := time.Now()
		result, err := g.Do(ctx, nil)
		answers <- answer{result, err, time.Since(start)}
	}()
	synctest.Wait()
	return answers
}

// bubble runs a test for both kinds of Group.
func bubble(t *testing.T, test func(t *testing.T, inline bool)) {
	for _, inline := range []bool{false, true} {
		t.Run(fmt.Sprintf("inline=%t", inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, inline) })
		})
	}
}

func TestOneInFlightAndOneWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		start := time.Now()
		answers := make([]<-chan answer, 1000)
		for i := range answers {
			answers[i] = ask(t.Context(), g)
		}
		for i, answers := range answers {
			got := <-answers
			want := Result[int64]{2, Call{SentAt: start.Add(time.Second), Callers: 999}}
			if i == 0 {
				want = Result[int64]{1, Call{SentAt: start, Callers: 1}}
			}
			if got.err != nil || *got.result != want {
				t.Fatalf("caller %d: %+v, %v; want %+v", i, got.result, got.err, want)
			}
		}
		if calls := b.calls.Load(); calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	})
}

func TestNoGoroutineWhileIdle(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		for want := range int64(3) {
			if got, err := g.Do(t.Context(), nil); err != nil || got.Value != want+1 {
				t.Fatalf("%+v, %v", got, err)
			}
			g.calls.Wait() // would be a deadlock that the bubble reports
		}
	})
}

// TestBeside: one thing goes along with each call, that of the first caller who has
// one, and before the call is made.
func TestBeside(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		var beside [][2]int64 // caller, calls made before
		for round := range int64(2) {
			var callers sync.WaitGroup
			for i := range int64(10) {
				callers.Go(func() {
					var mine Companion
					if i != 1 {
						mine = companion(func() { beside = append(beside, [2]int64{i, b.calls.Load()}) })
					}
					if _, err := g.Do(t.Context(), mine); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			callers.Wait()
			synctest.Wait()
			if want := [][2]int64{{0, 2 * round}, {2, 2*round + 1}}; !slices.Equal(beside, want) {
				t.Errorf("%v, want %v", beside, want)
			}
			beside = nil
		}
	})
}

type companion func()

func (c companion) Send() { c() }

// settler takes a second of the bubble's clock to settle a call of a crowd.
type settler struct{ settled *[]int64 }

func (settler) Send() {}
func (s settler) Settle(_ context.Context, value int64) {
	time.Sleep(time.Second)
	*s.settled = append(*s.settled, value)
}

// TestSettle: a crowd is told when what went along has settled, and who are few at
// once.
func TestSettle(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		var settled []int64
		for _, waiting := range []int{crowd - 1, crowd} {
			flying := ask(t.Context(), g)
			var callers sync.WaitGroup
			start := time.Now()
			for range waiting {
				callers.Go(func() {
					if _, err := g.Do(t.Context(), settler{&settled}); err != nil {
						t.Error(err)
					}
				})
			}
			callers.Wait()
			last := time.Since(start)
			want := 2 * time.Second
			if waiting >= crowd {
				want += time.Second
			}
			if last != want {
				t.Errorf("%d callers were told after %v, want %v", waiting, last, want)
			}
			<-flying
			synctest.Wait()
		}
		if !slices.Equal(settled, []int64{4}) {
			t.Errorf("settled the values of %v, want that of the fourth call", settled)
		}
	})
}

// TestSettlePanics: what goes along may panic, when it is sent and when it settles. Its
// callers join another call, with which nothing goes.
func TestSettlePanics(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		for _, beside := range []Companion{panickySend{}, panickySettler{}} {
			before := guard.Count()
			flying := ask(t.Context(), g)
			var callers sync.WaitGroup
			for range crowd {
				callers.Go(func() {
					if _, err := g.Do(t.Context(), beside); err != nil {
						t.Errorf("%T: %v", beside, err)
					}
				})
			}
			callers.Wait()
			<-flying
			if n := guard.Count() - before; n != 1 {
				t.Errorf("%T: %d panics were counted, want 1", beside, n)
			}
		}
		if _, err := g.Do(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

type panickySend struct{}

func (panickySend) Send() { panic("boom") }

type panickySettler struct{}

func (panickySettler) Send()                         {}
func (panickySettler) Settle(context.Context, int64) { panic("boom") }

// TestInline: who comes alone makes the call, and nobody else does.
func TestInline(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		caller := goroutine()
		var own []bool
		g := New(func(context.Context, Call) (struct{}, error) {
			own = append(own, goroutine() == caller)
			time.Sleep(time.Second)
			return struct{}{}, nil
		}, Config{Timeout: time.Minute, Inline: inline})
		others := make(chan error)
		for range 2 {
			go func() {
				time.Sleep(time.Second / 2)
				_, err := g.Do(t.Context(), nil)
				others <- err
			}()
			if _, err := g.Do(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := <-others; err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if want := []bool{inline, false, inline, false}; !slices.Equal(own, want) {
			t.Errorf("made by the caller itself: %v, want %v", own, want)
		}
	})
}

// TestAloneAndGone: the call of a caller alone ends with its context, and is not
// made again.
func TestAloneAndGone(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		cause := errors.New("hung up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, cause)
		defer cancel()
		start := time.Now()
		if _, err := g.Do(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) {
			t.Error(err)
		}
		if after := time.Since(start); after != time.Second/2 {
			t.Errorf("returned after %v", after)
		}
		g.calls.Wait()
		if got, want := <-b.causes, abandoned(inline, cause); got != want {
			t.Errorf("the call ended by %v, want %v", got, want)
		}
		if calls := b.calls.Load(); calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

// abandoned is why the call of one caller ends when that caller's context does.
func abandoned(inline bool, own error) error {
	if inline {
		return own
	}
	return ErrAbandoned
}

// goroutine names the goroutine that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack, false)]), " [")
	return name
}

func TestCancellationFreesOnlyThatCaller(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		flying := ask(t.Context(), g)
		cause := errors.New("hung up")
		for _, waiting := range []bool{true, false} {
			// Two in one batch: first while it waits, then while it flies.
			ctx, cancel := context.WithCancelCause(t.Context())
			leaver, stayer := ask(ctx, g), ask(t.Context(), g)
			if !waiting {
				if got := <-flying; got.err != nil {
					t.Fatal(got.err)
				}
				synctest.Wait()
			}
			before := time.Now()
			cancel(cause)
			got := <-leaver
			if !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, cause) {
				t.Errorf("the leaver got %v", got.err)
			}
			if late := time.Since(before); late != 0 {
				t.Errorf("the leaver was held for %v", late)
			}
			if waiting {
				if got := <-flying; got.err != nil {
					t.Fatal(got.err)
				}
				flying = stayer
				synctest.Wait() // until it is
				continue
			}
			if got := <-stayer; got.err != nil || got.result.Callers != 2 {
				t.Errorf("the stayer got %+v, %v", got.result, got.err)
			}
		}
		if calls := b.calls.Load(); calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
		if len(b.causes) != 0 {
			t.Errorf("a call was cancelled: %v", <-b.causes)
		}
	})
}

func TestDeadContextStartsNothing(t *testing.T) {
	b := newBackend()
	g := New(b.call, Config{Timeout: time.Minute, Inline: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Do(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	g.Close()
	if calls := b.calls.Load(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

func TestAllGone(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		flying, waiting := ask(first, g), ask(second, g)
		cancelSecond()
		if got := <-waiting; got.err != context.Canceled || got.after != 0 {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		cancelFirst()
		if got := <-flying; got.err != context.Canceled || got.after != 0 {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		g.calls.Wait()
		if cause := <-b.causes; cause != abandoned(inline, context.Canceled) {
			t.Errorf("the call in flight ended by %v", cause)
		}
		if calls := b.calls.Load(); calls != 1 {
			t.Errorf("%d calls: the one that waited was sent", calls)
		}
		if got, err := g.Do(t.Context(), nil); err != nil || got.Value != 2 {
			t.Errorf("the next caller got %+v, %v", got, err)
		}
	})
}

// TestSharedFailure: whoever waited for a call that failed joins the next one
// with all the others, and gets the error of that.
func TestSharedFailure(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		b.err, b.failFrom = errors.New("backend is down"), 2
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		flying := ask(t.Context(), g)
		answers := make([]<-chan answer, 1000)
		for i := range answers {
			answers[i] = ask(t.Context(), g)
		}
		if got := <-flying; got.err != nil {
			t.Fatal(got.err)
		}
		for _, answers := range answers {
			if got := <-answers; got.err != b.err || got.after != 3*time.Second || got.result.Callers != 1000 {
				t.Fatalf("after %v: %+v, %v", got.after, got.result, got.err)
			}
		}
		if calls := b.calls.Load() - 1; calls != 2 {
			t.Errorf("%d calls for 1000 callers of a failing backend, want 2", calls)
		}
	})
}

// TestFailureJoinsTheBatchThatWaits: the retry is the next call, not one more.
func TestFailureJoinsTheBatchThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		var calls atomic.Int64
		g := New(func(context.Context, Call) (int64, error) {
			time.Sleep(time.Second)
			if calls.Add(1) == 1 {
				return 0, io.ErrUnexpectedEOF
			}
			return calls.Load(), nil
		}, Config{Timeout: time.Minute, Inline: inline})
		unlucky, next := ask(t.Context(), g), ask(t.Context(), g)
		for _, answers := range []<-chan answer{unlucky, next} {
			if got := <-answers; got.err != nil || got.result.Value != 2 || got.result.Callers != 2 {
				t.Errorf("%+v, %v", got.result, got.err)
			}
		}
	})
}

// TestTwoFailuresAreEnough: who has seen two calls fail goes, also where others
// of the second one try another.
func TestTwoFailuresAreEnough(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		b.err = io.ErrUnexpectedEOF
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		first, second := ask(t.Context(), g), ask(t.Context(), g)
		if got := <-first; got.err != b.err || got.after != 2*time.Second {
			t.Errorf("the first: after %v: %v", got.after, got.err)
		}
		if got := <-second; got.err != b.err || got.after != 3*time.Second {
			t.Errorf("the second: after %v: %v", got.after, got.err)
		}
		if calls := b.calls.Load(); calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
	})
}

// TestLeavingLate: a caller whose context ended while its call failed may have
// been moved on before it leaves. It must leave the batch where it stands now.
func TestLeavingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		b.err = io.ErrUnexpectedEOF
		g := New(b.call, Config{Timeout: time.Minute, Inline: false})
		first, _, _, err := g.join(t.Context(), nil) // a caller that has not looked since
		if err != nil {
			t.Fatal(err)
		}
		go g.send()
		<-first.done
		synctest.Wait()
		if calls := b.calls.Load(); calls != 2 {
			t.Fatalf("%d calls: it was not moved on", calls)
		}
		left := time.Now()
		g.leave(first, true, ErrAbandoned)
		g.calls.Wait()
		if cause := <-b.causes; cause != ErrAbandoned || !time.Now().Equal(left) {
			t.Errorf("the second call ended by %v, after %v", cause, time.Since(left))
		}
	})
}

// TestLeavingTheRetry: a caller that was moved on leaves the batch where it is
// now, and the last one to go takes the call with it.
func TestLeavingTheRetry(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		b.err = io.ErrUnexpectedEOF
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		early, cancelEarly := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancelEarly()
		late, cancelLate := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancelLate()
		first, second := ask(early, g), ask(late, g)
		if got := <-first; got.err != context.DeadlineExceeded || got.after != 1200*time.Millisecond {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		if got := <-second; got.err != context.DeadlineExceeded || got.after != 1500*time.Millisecond {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		if cause := <-b.causes; cause != ErrAbandoned {
			t.Errorf("the second call ended by %v", cause)
		}
		if calls := b.calls.Load(); calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	})
}

func TestDeadlinesAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()

		// The caller's own.
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got := <-ask(ctx, g); got.err != context.DeadlineExceeded || got.after != 100*time.Millisecond {
			t.Errorf("own: after %v: %v", got.after, got.err)
		}
		if cause := <-b.causes; cause != abandoned(inline, context.DeadlineExceeded) {
			t.Error(cause)
		}
		g.Close()

		// The call's. A call that ends by it has failed, so there are two.
		g = New(b.call, Config{Timeout: 100 * time.Millisecond, Inline: inline})
		got := <-ask(t.Context(), g)
		if !errors.Is(got.err, ErrTimeout) || !errors.Is(got.err, context.DeadlineExceeded) || got.after != 200*time.Millisecond {
			t.Errorf("shared: after %v: %v", got.after, got.err)
		}
		if !strings.Contains(got.err.Error(), "100ms") {
			t.Errorf("the timeout is not named: %v", got.err)
		}
		for range 2 {
			if cause := <-b.causes; cause != g.expired {
				t.Error(cause)
			}
		}
	})
}

func TestPanicAndGoexit(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		boom := errors.New("boom")
		var fail func()
		g := New(func(context.Context, Call) (int64, error) {
			time.Sleep(time.Second)
			fail()
			return 7, nil
		}, Config{Timeout: time.Minute, Inline: inline})

		fail = func() { panic(boom) }
		answers := []<-chan answer{ask(t.Context(), g), ask(t.Context(), g)}
		for _, answers := range answers {
			got := <-answers
			panicked, ok := errors.AsType[*PanicError](got.err)
			if !ok || panicked.Value != any(boom) || !errors.Is(got.err, boom) {
				t.Fatalf("got %v", got.err)
			}
			if strings.Contains(got.err.Error(), "group_test.go") || !strings.Contains(string(panicked.Stack), "group_test.go") {
				t.Errorf("the stack is not kept, or goes out with the error: %v", got.err)
			}
		}

		fail = runtime.Goexit
		answers = []<-chan answer{ask(t.Context(), g), ask(t.Context(), g)}
		if inline {
			answers = answers[1:] // it ends the goroutine of the first caller
		}
		for _, answers := range answers {
			if got := <-answers; got.err != errExited {
				t.Fatalf("got %v", got.err)
			}
		}

		fail = func() {}
		if got, err := g.Do(t.Context(), nil); err != nil || got.Value != 7 {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
		g.Close()
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend()
		g := New(b.call, Config{Timeout: time.Minute, Inline: inline})
		answers := make([]<-chan answer, 1000)
		for i := range answers {
			answers[i] = ask(t.Context(), g)
		}
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				g.Close()
				if n := b.inFlight.Load(); n != 0 {
					t.Errorf("Close returned with %d calls in flight", n)
				}
			})
		}
		closers.Wait()
		for _, answers := range answers {
			if got := <-answers; got.err != ErrClosed || got.after != 0 {
				t.Fatalf("after %v: %v", got.after, got.err)
			}
		}
		if cause := <-b.causes; cause != ErrClosed {
			t.Errorf("the call in flight ended by %v", cause)
		}
		if g.waiting != nil {
			t.Error("callers were moved to a call that is never sent")
		}
		if _, err := g.Do(t.Context(), nil); err != ErrClosed {
			t.Error(err)
		}
		if calls := b.calls.Load(); calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

// TestStorm lets callers come and go as they like, with calls that fail now
// and then, and a Close in the middle: for the race detector, and to see that
// nobody is left behind.
func TestStorm(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		var inFlight, calls atomic.Int64
		g := New(func(ctx context.Context, call Call) (int64, error) {
			if inFlight.Add(1) > 1 {
				t.Error("two calls in flight")
			}
			defer inFlight.Add(-1)
			if call.Callers < 1 {
				t.Errorf("a call for %d callers", call.Callers)
			}
			n := calls.Add(1)
			select {
			case <-time.After(time.Duration(n%7) * time.Millisecond):
			case <-ctx.Done():
			}
			if n%3 == 0 {
				return 0, io.ErrUnexpectedEOF
			}
			return n, ctx.Err()
		}, Config{Timeout: 5 * time.Millisecond, Inline: inline})

		var callers sync.WaitGroup
		for i := range 200 {
			callers.Go(func() {
				for j := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration((i*j)%17)*time.Millisecond)
					arrived := time.Now()
					got, err := g.Do(ctx, nil)
					if err == nil && got.SentAt.Before(arrived) {
						t.Errorf("joined a call sent %v before", arrived.Sub(got.SentAt))
					}
					cancel()
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		g.Close()
		callers.Wait()
		if calls.Load() < 10 {
			t.Errorf("only %d calls: the storm did not happen", calls.Load())
		}
	})
}

func TestPatience(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		const patience = 640 * time.Millisecond
		b := newBackend() // answers nobody
		g := New(b.call, Config{Timeout: time.Minute, Patience: patience, Inline: inline})
		defer g.Close()
		var answers []<-chan answer
		for range 5 { // 5 ms apart: some share a timer, some do not
			answers = append(answers, ask(t.Context(), g))
			time.Sleep(5 * time.Millisecond)
		}
		for i, answers := range answers {
			got := <-answers
			if !errors.Is(got.err, ErrTimeout) || got.after > patience || got.after < patience-patience/64 {
				t.Errorf("caller %d: after %v: %v", i, got.after, got.err)
			}
		}
		synctest.Wait()
		if g.mu.Lock(); g.running || g.waiting != nil {
			t.Error("a batch is left of those who have gone")
		}
		g.mu.Unlock()
	})
}

// TestImpatienceIsATimeout: where the last caller leaves because the call took too long,
// the call is told so, whoever kept the time; else it would look like one that nobody wants.
func TestImpatienceIsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T, inline bool) {
		b := newBackend() // answers later than anybody waits
		g := New(b.call, Config{Timeout: time.Minute, Patience: 640 * time.Millisecond, Inline: inline})
		defer g.Close()
		late := fmt.Errorf("late: %w", ErrTimeout)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
		defer cancel()
		if got := <-ask(ctx, g); !errors.Is(got.err, late) || got.after != 100*time.Millisecond {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		if cause := <-b.causes; cause != late {
			t.Errorf("the call was ended by %v", cause)
		}
		first := ask(t.Context(), g)
		if got := <-first; !errors.Is(got.err, ErrTimeout) || got.after < 600*time.Millisecond {
			t.Errorf("after %v: %v", got.after, got.err)
		}
		if cause := <-b.causes; !errors.Is(cause, ErrTimeout) {
			t.Errorf("the call was ended by %v", cause)
		}
	})
}
