package etcdlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Processes is a running etcd cluster like [Cluster], with each member in a process
// of its own, so that it can be frozen and killed, and with all that the members
// say to each other and to clients on wires that can be disturbed. Members listen
// on unix sockets and are reached through listeners of this process, so addresses
// stay over restarts and restores. Its methods may be called from any goroutine.
type Processes struct {
	cfg    Config // its Token is guarded by mu
	dir    string // the members' data and logs
	remove []string
	peers  *peerDoors
	doors  []*Proxy // index i leads clients to member i
	wg     sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	restoring bool       // nothing may start
	running   []*process // nil where a member does not run
	crashes   []error    // of members that ended by themselves
	more      []*Proxy   // from Door
	moved     bell       // running or what a process has seen changed

	closeOnce sync.Once
	closeErr  error
}

// StartProcesses starts a cluster and returns when every member serves clients. The
// program must have called [MaybeMember]. All fields of cfg count but Unix and
// Proxy, which are always so, and Logger and Tune, which cannot reach another
// process: leave them unset. The error names a wrong field of cfg, or shows
// the log of the member that failed.
func StartProcesses(cfg Config) (*Processes, error) {
	c, err := startProcesses(cfg)
	if err != nil {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, fmt.Errorf("etcdlab: start: %w", err)
	}
	return c, nil
}

func startProcesses(cfg Config) (*Processes, error) {
	if !mayHaveChildren.Load() {
		return nil, errors.New("call MaybeMember first in main or TestMain")
	}
	if cfg.Unix || cfg.Proxy || cfg.Logger != nil || cfg.Tune != nil {
		return nil, errors.New("Config.Unix, Proxy, Logger and Tune are not for processes; leave them unset")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Processes{cfg: cfg, running: make([]*process, cfg.Members)}
	if err := c.open(); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startTimeout, fmt.Errorf("gave up after %v", startTimeout))
	defer cancel()
	var started []*process
	// One after the other, for the reason that startMembers gives.
	for i := range cfg.Members {
		p, err := c.spawn(i)
		if err != nil {
			return c, err
		}
		if err := c.awaitReport(ctx, p, "started", func(r report) bool { return r.Started }); err != nil {
			return c, err
		}
		started = append(started, p)
	}
	return c, c.awaitReady(ctx, started)
}

// open makes the folders, and the doors to the members and between them.
func (c *Processes) open() error {
	if c.dir = c.cfg.Dir; c.dir == "" {
		dir, err := os.MkdirTemp("", "etcdlab")
		if err != nil {
			return err
		}
		c.dir, c.remove = dir, append(c.remove, dir)
	}
	dir, err := filepath.Abs(c.dir) // children have working directories of their own
	if err != nil {
		return err
	}
	c.dir = dir
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	// Not under dir: a socket's path may have only some 100 bytes.
	sockets, err := os.MkdirTemp("", "etcdlab")
	if err != nil {
		return err
	}
	c.remove = append(c.remove, sockets)
	if c.peers, err = openPeerDoors(sockets, c.cfg.Members); err != nil {
		return err
	}
	for i := range c.cfg.Members {
		door, err := NewProxy(c.Direct(i))
		if err != nil {
			return err
		}
		c.doors = append(c.doors, door)
	}
	return nil
}

// Close kills the members, which harms no data, closes all doors, and removes what
// StartProcesses made, but not Config.Dir. The error tells of members that had
// ended by themselves, with the ends of their logs. Later calls return what the
// first did. Clients are their owners' to close, before or after.
func (c *Processes) Close() error {
	c.closeOnce.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		errs := []error{c.Kill(c.all()...)}
		c.wg.Wait()
		c.mu.Lock()
		for _, crash := range c.crashes {
			errs = append(errs, fmt.Errorf("etcdlab: %w", crash))
		}
		doors := slices.Concat(c.doors, c.more)
		c.mu.Unlock()
		for _, door := range doors {
			door.Close()
		}
		if c.peers != nil {
			c.peers.close()
		}
		for _, dir := range c.remove {
			errs = append(errs, os.RemoveAll(dir))
		}
		c.closeErr = errors.Join(errs...)
	})
	return c.closeErr
}

// all are the indexes of the members.
func (c *Processes) all() []int {
	indexes := make([]int, c.cfg.Members)
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

// Endpoints are the addresses of the members' doors, as clientv3 and storagebackend
// take them. Index i belongs to member i.
func (c *Processes) Endpoints() []string {
	endpoints := make([]string, len(c.doors))
	for i, door := range c.doors {
		endpoints[i] = "http://" + door.Addr()
	}
	return endpoints
}

// Direct is an endpoint of member i that no door stands before: for those who
// observe or repair what happens to others.
func (c *Processes) Direct(i int) string {
	return "unix://" + filepath.Join(c.peers.dir(i), clientSocket)
}

// Proxy is the door before member i that Endpoints names.
func (c *Processes) Proxy(i int) *Proxy { return c.doors[i] }

// Door opens one more door before member i, so that clients can be disturbed apart
// from each other. Close closes it.
func (c *Processes) Door(i int) (*Proxy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("etcdlab: door of member %d: %w", i, errClosed)
	}
	door, err := NewProxy(c.Direct(i))
	if err == nil {
		c.more = append(c.more, door)
	}
	return door, err
}

// Client makes a client as [Cluster.Client] does.
func (c *Processes) Client(ctx context.Context, cfg ClientConfig) (*clientv3.Client, error) {
	return newClient(ctx, c.Endpoints(), cfg)
}

// Dir is the data directory of member i.
func (c *Processes) Dir(i int) string { return filepath.Join(c.dir, memberName(i)) }

// Log is the file with the log of all runs of member i.
func (c *Processes) Log(i int) string { return c.Dir(i) + ".log" }
