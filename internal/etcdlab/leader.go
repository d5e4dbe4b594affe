package etcdlab

import (
	"context"
	"slices"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// CutPeer partitions member i from the others: no raft message passes either way.
// Its clients stay connected to it. MendPeer ends it.
func (c *Cluster) CutPeer(i int) {
	for j := range c.members {
		if j != i {
			c.server(i).CutPeer(c.server(j).MemberID())
			c.server(j).CutPeer(c.server(i).MemberID())
		}
	}
}

// MendPeer ends a CutPeer of member i.
func (c *Cluster) MendPeer(i int) {
	for j := range c.members {
		if j != i {
			c.server(i).MendPeer(c.server(j).MemberID())
			c.server(j).MendPeer(c.server(i).MemberID())
		}
	}
}

// Leader is the index of the member that a majority takes for the leader, -1 if
// there is none. Right after CutPeer of the leader it is still that one.
func (c *Cluster) Leader() int {
	leaders := make([]int, len(c.members))
	for i := range leaders {
		leaders[i] = slices.IndexFunc(c.members, func(m *embed.Etcd) bool {
			return m.Server.MemberID() == c.server(i).Leader()
		})
	}
	return majority(leaders)
}

// WaitLeader waits until Leader is a member that is not in not, and returns it;
// not is for the leader before a CutPeer. The error is the cause of ctx's end.
func (c *Cluster) WaitLeader(ctx context.Context, not ...int) (int, error) {
	for {
		// Take the channels first: a change after the look below closes one of them.
		var changed [3]<-chan struct{} // a nil channel never fires
		for i := range c.members {
			changed[i] = c.server(i).LeaderChangedNotify()
		}
		if i := c.Leader(); i >= 0 && !slices.Contains(not, i) {
			return i, nil
		}
		select {
		case <-changed[0]:
		case <-changed[1]:
		case <-changed[2]:
		case <-ctx.Done():
			return -1, context.Cause(ctx)
		}
	}
}

func (c *Cluster) server(i int) *etcdserver.EtcdServer { return c.members[i].Server }
