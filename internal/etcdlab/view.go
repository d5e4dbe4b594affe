package etcdlab

import (
	"context"
	"fmt"
	"slices"
)

// Await waits until ok holds for what the members see: leaders[i] is the index of
// the member that member i takes for the leader, -1 if for none or if i does not
// run. A frozen member's view is its last. The error is the cause of ctx's end,
// with the last views.
func (c *Processes) Await(ctx context.Context, ok func(leaders []int) bool) error {
	var leaders []int
	err := await(ctx, &c.mu, &c.moved, func() (bool, error) {
		leaders = c.leadersLocked()
		return ok(leaders), nil
	})
	if err != nil {
		return fmt.Errorf("etcdlab: members see leaders %v: %w", leaders, err)
	}
	return nil
}

func (c *Processes) leadersLocked() []int {
	leaders := make([]int, len(c.running))
	for i, p := range c.running {
		leaders[i] = slices.IndexFunc(c.running, func(other *process) bool {
			return p != nil && other != nil && p.seen.Leader != 0 && p.seen.Leader == other.seen.Member
		})
	}
	return leaders
}

// Leader is the index of the member that a majority takes for the leader, -1 if
// there is none. Right after the leader was cut off, frozen or killed it may
// still be that one.
func (c *Processes) Leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return majority(c.leadersLocked())
}

// majority is the leader that most of the members see, -1 if there is none.
func majority(leaders []int) int {
	votes := make([]int, len(leaders))
	for _, leader := range leaders {
		if leader >= 0 {
			votes[leader]++
		}
	}
	return slices.IndexFunc(votes, func(n int) bool { return 2*n > len(leaders) })
}

// WaitLeader waits until Leader is a member that is not in not, and returns it;
// not is for the leader before a disturbance. The error is that of Await.
func (c *Processes) WaitLeader(ctx context.Context, not ...int) (int, error) {
	leader := -1
	err := c.Await(ctx, func(leaders []int) bool {
		leader = majority(leaders)
		return leader >= 0 && !slices.Contains(not, leader)
	})
	if err != nil {
		return -1, err
	}
	return leader, nil
}

// ClusterID is the cluster id of member i, 0 if it has not started.
func (c *Processes) ClusterID(i int) uint64 { return c.seen(i).Cluster }

// MemberID is the id by which etcd knows member i, 0 if it has not started.
func (c *Processes) MemberID(i int) uint64 { return c.seen(i).Member }

func (c *Processes) seen(i int) report {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[i]; p != nil {
		return p.seen
	}
	return report{}
}
