package main

import (
	"context"
	"errors"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// world is an etcd that API server A hears of in time, and API server B does not
// between lag and heal.
type world struct {
	a, b           *sides.Port // what the API servers dial
	lagged, healed string      // what a reader of the timeline is told
	lag            func(context.Context) error
	heal           func() // may be called again
	close          func() error
}

// opener starts a world, in which A and B are both up to date.
type opener func(context.Context) (*world, error)

// cutOff has B on a member that lag cuts off from the other two, of which A has one.
func cutOff(ctx context.Context) (*world, error) {
	cluster, err := etcdlab.Start(etcdlab.Config{Members: 3})
	if err != nil {
		return nil, err
	}
	leader, err := cluster.WaitLeader(ctx)
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	follower := (leader + 1) % 3
	port := func(member int) *sides.Port { return &sides.Port{Endpoint: cluster.Endpoints()[member]} }
	return &world{
		a: port(leader), b: port(follower),
		lagged: "B's member is cut off",
		healed: "the partition heals",
		lag: func(ctx context.Context) error {
			cluster.CutPeer(follower)
			_, err := cluster.WaitLeader(ctx, follower) // it may have become the leader meanwhile
			return err
		},
		heal:  func() { cluster.MendPeer(follower) },
		close: cluster.Close,
	}, nil
}

// behind has one member for both. Between lag and heal nothing comes on B's watches,
// while its other calls, those that read floors among them, are answered.
func behind(ctx context.Context) (*world, error) {
	lab, err := sides.Start(ctx, 2, nil)
	if err != nil {
		return nil, err
	}
	return &world{
		a: lab.Ports[0], b: lab.Ports[1],
		lagged: "B's watches fall behind",
		healed: "B's watches catch up",
		lag:    func(context.Context) error { lab.Ports[1].Watches.Hold(); return nil },
		heal:   lab.Ports[1].Watches.Release,
		close:  lab.Close,
	}, nil
}
