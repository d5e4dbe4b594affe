package apiserver

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/peer"
)

// asked is a member as a test's calls meet it, one after the other as gRPC does.
type asked struct {
	takes time.Duration // 0: it never answers
	fails error
	conn  *memberConn
	calls int
}

// ring sends each call to the next member.
type ring struct {
	members []*asked
	mu      sync.Mutex
	next    int
}

func newRing(t *testing.T, m *members, members ...*asked) *ring {
	for _, a := range members {
		conn, err := m.connect(t.Context(), "member")
		require.NoError(t, err)
		a.conn = conn.(*memberConn)
	}
	return &ring{members: members}
}

func (r *ring) call(ctx context.Context, answer *pb.RangeResponse, p *peer.Peer) error {
	r.mu.Lock()
	a := r.members[r.next%len(r.members)]
	r.next++
	a.calls++
	takes, number := a.takes, int64(r.next)
	r.mu.Unlock()
	defer func() { p.LocalAddr = a.conn.LocalAddr() }() // gRPC tells it at the end
	var answered <-chan time.Time
	if takes > 0 {
		answered = time.After(takes)
	}
	select {
	case <-answered:
		answer.Count = number
		return a.fails
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pipes are connections without a network: closed tells whether one was closed.
func pipes(context.Context, string) (net.Conn, error) {
	near, _ := net.Pipe()
	return near, nil
}

func (a *asked) closed() bool { return a.conn.SetDeadline(time.Time{}) != nil }

func testMembers() *members {
	return newMembers([]string{"http://a:1", "http://b:1", "http://c:1"}, pipes)
}

func (m *members) readFrom(ctx context.Context, r *ring) error {
	return m.read(ctx, m.others, &pb.RangeResponse{}, r.call)
}

// A read that meets a member which does not answer is answered by the next, and the member is left when that went on for
// as long as patience, not before.
func TestMuteMemberIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMembers()
		mute := &asked{}
		r := newRing(t, m, mute, &asked{takes: time.Millisecond}, &asked{takes: time.Millisecond})
		start := time.Now()
		for !mute.closed() {
			sent := time.Now()
			require.NoError(t, m.readFrom(t.Context(), r))
			assert.LessOrEqual(t, time.Since(sent), hedgeAfter+time.Millisecond)
			require.Less(t, time.Since(start), 2*patience)
		}
		assert.GreaterOrEqual(t, time.Since(start), patience)
		for _, healthy := range r.members[1:] {
			assert.False(t, healthy.closed())
		}

		// It is not connected to for a time, and then again.
		left := time.Now()
		_, err := m.connect(t.Context(), "another")
		require.NoError(t, err)
		assert.Zero(t, time.Since(left))
		_, err = m.connect(t.Context(), "member")
		require.NoError(t, err)
		assert.Equal(t, leftFor, time.Since(left))
	})
}

// A member that is left again soon after its return stays away longer, up to a bound, and one that did well for a time
// does not.
func TestLeavingAgain(t *testing.T) {
	now := time.Now()
	left := leaving{}.again(now)
	for _, want := range []time.Duration{5, 10, 20, 40, 60, 60} {
		assert.Equal(t, want*time.Second, left.stay)
		now = now.Add(left.stay + 2*time.Second)
		left = left.again(now)
	}
	now = now.Add(left.stay + maxLeftFor + time.Second)
	assert.Equal(t, leftFor, left.again(now).stay)
}

// Of many reads that meet the same end of patience one leaves the member.
func TestManyLeaveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMembers()
		mute := &asked{}
		newRing(t, m, mute)
		sent := time.Now()
		for range 3 { // the first begins the time
			m.overtaken(mute.conn, sent)
		}
		assert.False(t, mute.closed())
		time.Sleep(patience)
		for range 10 {
			m.overtaken(mute.conn, sent)
		}
		assert.True(t, mute.closed())
		m.answered(mute.conn, time.Millisecond) // one that was under way
		for range 2 {
			m.overtaken(mute.conn, sent)
		}
		assert.Equal(t, leftFor, m.left["member"].stay)
	})
}

// An answer in between starts the time anew: a pause is no freeze.
func TestPauseIsForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMembers()
		paused := &asked{}
		r := newRing(t, m, paused, &asked{takes: time.Millisecond})
		for range 30 {
			for _, paused.takes = range []time.Duration{0, time.Millisecond} {
				r.next = 0
				require.NoError(t, m.readFrom(t.Context(), r))
			}
		}
		assert.False(t, paused.closed())
	})
}

// While nobody answers, nobody is left, and a read ends with its caller.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMembers()
		r := newRing(t, m, &asked{}, &asked{}, &asked{})
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			require.ErrorIs(t, m.readFrom(ctx, r), context.DeadlineExceeded)
			cancel()
		}
		for _, a := range r.members {
			assert.Equal(t, 5, a.calls, "each is asked once for a read")
			assert.False(t, a.closed())
		}
	})
}

// Members that are all far away are not asked twice for long, an error in time is not hidden, and a late one gives way.
func TestLateReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMembers()
		far := newRing(t, m, &asked{takes: 150 * time.Millisecond})
		for range 20 {
			require.NoError(t, m.readFrom(t.Context(), far))
		}
		twice := far.members[0].calls
		for range 20 {
			require.NoError(t, m.readFrom(t.Context(), far))
		}
		assert.Equal(t, twice+20, far.members[0].calls)
		assert.False(t, far.members[0].closed())

		failed := errors.New("failed")
		m = testMembers()
		r := newRing(t, m, &asked{takes: time.Millisecond, fails: failed}, &asked{takes: time.Millisecond})
		require.ErrorIs(t, m.readFrom(t.Context(), r), failed)
		r.members[0].takes, r.next = hedgeAfter+time.Millisecond/2, 0
		require.NoError(t, m.readFrom(t.Context(), r))
	})
}

// One endpoint has no other to go to, and a proxy of the environment is not gone past.
func TestNothingToLeave(t *testing.T) {
	assert.Empty(t, newMembers([]string{"http://a:1"}, pipes).options())
	assert.NotEmpty(t, testMembers().options())
}
