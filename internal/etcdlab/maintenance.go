package etcdlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// direct calls member i past its doors.
func (c *Processes) direct(ctx context.Context, i int, what string, call func(*clientv3.Client) error) error {
	client, err := newClient(ctx, []string{c.Direct(i)}, ClientConfig{})
	if err != nil {
		return err
	}
	defer client.Close()
	if err := call(client); err != nil {
		return fmt.Errorf("etcdlab: %s of member %d: %w", what, i, err)
	}
	return nil
}

// MoveLeader hands the leadership to member to, and returns when a majority takes it
// for the leader.
func (c *Processes) MoveLeader(ctx context.Context, to int) error {
	leader, err := c.WaitLeader(ctx)
	if err != nil || leader == to {
		return err
	}
	err = c.direct(ctx, leader, "MoveLeader", func(client *clientv3.Client) error {
		_, err := client.MoveLeader(ctx, c.MemberID(to))
		return err
	})
	if err != nil {
		return err
	}
	return c.Await(ctx, func(leaders []int) bool { return majority(leaders) == to })
}

// Defragment rewrites the store of member i, which answers nothing meanwhile.
func (c *Processes) Defragment(ctx context.Context, i int) error {
	return c.direct(ctx, i, "Defragment", func(client *clientv3.Client) error {
		_, err := client.Defragment(ctx, client.Endpoints()[0])
		return err
	})
}

// Save writes a snapshot of member i to a new file, as etcdctl snapshot save does. It
// holds what that member has applied, which may be less than a client has seen.
func (c *Processes) Save(ctx context.Context, i int, file string) error {
	return c.direct(ctx, i, "Save", func(client *clientv3.Client) error { return save(ctx, client, file) })
}

// RestoreConfig says how [Processes.Restore] restores. The zero value restores what
// the snapshot holds, and gives the cluster the id that it had.
type RestoreConfig struct {
	// Token goes into the new cluster's ids. Empty means the present one, which gives
	// the same cluster id and member ids.
	Token string
	// RevisionBump is added to the revision of the snapshot; all up to there is then
	// marked as compacted. 0 does neither. (etcd knows no other combinations.)
	RevisionBump uint64
}

// Restore kills all members and replaces the cluster by a new one, of as many
// members behind the same addresses, that holds what the snapshot in file does. It
// returns when all serve clients. After an error the members may be down and
// their data gone.
func (c *Processes) Restore(ctx context.Context, file string, cfg RestoreConfig) error {
	if err := c.restore(file, cfg.Token, cfg.RevisionBump); err != nil {
		return fmt.Errorf("etcdlab: Restore: %w", err)
	}
	return c.Start(ctx, c.all()...)
}

func (c *Processes) restore(file, token string, bump uint64) error {
	c.mu.Lock()
	if c.restoring {
		c.mu.Unlock()
		return errors.New("another one is under way")
	}
	c.restoring = true
	c.cfg.Token = cmp.Or(token, c.cfg.Token)
	cfg := c.cfg
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.restoring = false
	}()
	if err := c.Kill(c.all()...); err != nil {
		return err
	}
	at := addresses{peers: peerURLs(cfg.Members), clients: make([]url.URL, cfg.Members)}
	return c.each(c.all(), func(i int) error {
		if err := os.RemoveAll(c.Dir(i)); err != nil {
			return err
		}
		return cfg.restore(i, c.dir, at, file, bump)
	})
}
