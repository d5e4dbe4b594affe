package faultlab

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// fault is one kind of fault. strike returns when it has been seen to happen, with what
// ends it. What happens under a brief one has happened then.
type fault struct {
	name   string
	brief  bool
	strike strikeFunc
}

type strikeFunc func(ctx context.Context, l *lab, random *rand.Rand) (end func(context.Context) error, err error)

func none(context.Context) error { return nil }

var faults = []fault{
	{"a member is frozen", false, func(_ context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		i := random.IntN(3)
		return func(context.Context) error { return l.cluster.Thaw(i) }, l.cluster.Freeze(i)
	}},
	{"the leader is frozen", false, func(ctx context.Context, l *lab, _ *rand.Rand) (func(context.Context) error, error) {
		leader := l.cluster.Leader()
		if leader < 0 {
			return none, errors.New("there is no leader")
		}
		if err := l.cluster.Freeze(leader); err != nil {
			return none, err
		}
		_, err := l.cluster.WaitLeader(ctx, leader)
		return func(context.Context) error { return l.cluster.Thaw(leader) }, err
	}},
	{"a member is killed", false, func(_ context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		i := random.IntN(3)
		return func(ctx context.Context) error { return l.cluster.Start(ctx, i) }, l.cluster.Kill(i)
	}},
	{"a member is cut off from the others", false, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		i := random.IntN(3)
		l.cluster.CutPeer(i)
		// It takes nobody for the leader, or steps down.
		err := l.cluster.Await(ctx, func(leaders []int) bool { return leaders[i] < 0 })
		return func(context.Context) error { l.cluster.MendPeer(i); return nil }, err
	}},
	{"what one member tells another is late", false, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		from := random.IntN(3)
		link := l.cluster.Link(from, (from+1+random.IntN(2))%3)
		link.Delay(30 * time.Millisecond)
		return healing(link), waiting(ctx, link)
	}},
	{"a server's links are cut", false, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		return each(pick(random, l.servers).doors, cut(ctx))
	}},
	{"a server's links stand still", false, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		return each(pick(random, l.servers).doors, func(door *etcdlab.Proxy) error {
			door.Hold()
			return waiting(ctx, door.Wire)
		})
	}},
	{"a server's links are late", false, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		return each(pick(random, l.servers).doors, func(door *etcdlab.Proxy) error {
			door.Delay(20 * time.Millisecond)
			return waiting(ctx, door.Wire)
		})
	}},
	{"a server's links are slow", false, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		return each(pick(random, l.servers).doors, func(door *etcdlab.Proxy) error {
			door.Throttle(200_000)
			return waiting(ctx, door.Wire)
		})
	}},
	{"the leadership moves", true, func(ctx context.Context, l *lab, _ *rand.Rand) (func(context.Context) error, error) {
		leader, err := l.cluster.WaitLeader(ctx)
		if err != nil {
			return none, err
		}
		return none, l.cluster.MoveLeader(ctx, (leader+1)%3)
	}},
	{"a member defragments", true, func(ctx context.Context, l *lab, random *rand.Rand) (func(context.Context) error, error) {
		return none, l.cluster.Defragment(ctx, random.IntN(3))
	}},
	{"a resource cannot be read", false, seal},
	{"an object cannot be decoded", false, corrupt},
	{"an object is under another's name", false, misname},
	{crowding, false, crowdOut},
	{restored, true, restore},
	{restoredSealed, true, restoreSealed},
}

// cut lets nothing through a door, and returns when all connections have ended.
func cut(ctx context.Context) func(*etcdlab.Proxy) error {
	return func(door *etcdlab.Proxy) error {
		door.Cut()
		_, err := door.Await(ctx, func(s etcdlab.WireStats) bool { return s.Open == 0 })
		return err
	}
}

// waiting waits until something is on the way through the wire that has not arrived.
func waiting(ctx context.Context, wire *etcdlab.Wire) error {
	_, err := wire.Await(ctx, func(s etcdlab.WireStats) bool { return s.UpWaiting+s.DownWaiting > 0 })
	return err
}

func healing(wire *etcdlab.Wire) func(context.Context) error {
	return func(context.Context) error { wire.Heal(); return nil }
}

// each disturbs all doors.
func each(doors []*etcdlab.Proxy, disturb func(*etcdlab.Proxy) error) (func(context.Context) error, error) {
	var errs []error
	for _, door := range doors {
		errs = append(errs, disturb(door))
	}
	return func(context.Context) error {
		for _, door := range doors {
			door.Heal()
		}
		return nil
	}, errors.Join(errs...)
}
