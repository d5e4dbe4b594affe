package etcdlab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

const (
	// startTimeout is far above what a start takes (under a second idle) and well
	// below the time after which go test kills a hung package.
	startTimeout = time.Minute
	// startAttempts bounds the tries after a port was taken between the moment it was
	// found free and the moment etcd opened it.
	startAttempts = 5
)

// Cluster is a running etcd cluster of one or three members. Its methods may be
// called from any goroutine.
type Cluster struct {
	cfg       Config
	dir       string   // the members' data
	fresh     []string // what a failed start removes from dir
	remove    []string // what Close removes
	endpoints []string
	proxies   []*Proxy // nil without Config.Proxy
	members   []*embed.Etcd
	calls     []*calls // index i belongs to member i

	closeOnce sync.Once
	closeErr  error
}

// Start starts a cluster and returns when every member serves clients, which
// implies a leader. The error names a wrong field of cfg, or is etcd's.
func Start(cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c := &Cluster{cfg: cfg, dir: cfg.Dir}
		err := c.start()
		if err == nil {
			return c, nil
		}
		c.remove = append(c.remove, c.fresh...)
		err = errors.Join(err, c.Close())
		if !errors.Is(err, syscall.EADDRINUSE) || attempt == startAttempts {
			return nil, fmt.Errorf("etcdlab: start: %w", err)
		}
	}
}

func (c *Cluster) start() error {
	if err := c.makeDirs(); err != nil {
		return err
	}
	sockets := ""
	if c.cfg.Unix {
		// Not under dir: a socket's path may have only some 100 bytes.
		dir, err := os.MkdirTemp("", "etcdlab")
		if err != nil {
			return err
		}
		c.remove, sockets = append(c.remove, dir), dir
	}
	at, err := c.cfg.pickAddresses(c.dir, sockets)
	if err != nil {
		return err
	}
	configs := make([]*embed.Config, c.cfg.Members)
	for i := range configs {
		ec := c.cfg.member(i, c.dir, at)
		calls := newCalls()
		c.calls = append(c.calls, calls)
		ec.GRPCAdditionalServerOptions = append(ec.GRPCAdditionalServerOptions, calls.serverOptions()...)
		if c.cfg.Proxy {
			p, err := NewProxy(ec.AdvertiseClientUrls[0].String())
			if err != nil {
				return err
			}
			c.proxies = append(c.proxies, p)
			if ec.AdvertiseClientUrls[0].Scheme == "unix" {
				ec.AdvertiseClientUrls[0].Scheme, ec.AdvertiseClientUrls[0].Path = "http", ""
			}
			ec.AdvertiseClientUrls[0].Host = p.Addr()
		}
		c.endpoints = append(c.endpoints, ec.AdvertiseClientUrls[0].String())
		configs[i] = ec
	}
	return c.startMembers(configs)
}

// makeDirs makes the cluster's folder and notes what is not yet in it.
func (c *Cluster) makeDirs() error {
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "etcdlab")
		if err != nil {
			return err
		}
		c.dir, c.remove = dir, append(c.remove, dir)
	} else if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	made := []string{peersFile(c.dir)}
	for i := range c.cfg.Members {
		made = append(made, c.Dir(i))
	}
	for _, path := range made {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			c.fresh = append(c.fresh, path)
		}
	}
	return nil
}

// startMembers starts one member after the other: a new one asks those that listen
// what they know, and loses a second for each that listens but does not answer yet.
// Then it waits for all, because a member is ready only with a quorum.
func (c *Cluster) startMembers(configs []*embed.Config) error {
	for _, ec := range configs {
		m, err := embed.StartEtcd(ec)
		if err != nil {
			return err
		}
		c.members = append(c.members, m)
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	for i, m := range c.members {
		select {
		case <-m.Server.ReadyNotify():
		case <-m.Server.StopNotify():
			return fmt.Errorf("member %d stopped before it was ready", i)
		case err := <-m.Err():
			return fmt.Errorf("member %d: %w", i, err)
		case <-timeout.C:
			return fmt.Errorf("member %d was not ready after %v", i, startTimeout)
		}
	}
	return nil
}

// Close stops the proxies and the members, ends the calls that are still open with
// Unavailable, and removes what Start made, but not Config.Dir. It returns when all
// has stopped; later calls return what the first did. Clients are their owners' to
// close, before or after.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		for _, p := range c.proxies {
			p.Close()
		}
		c.closeMembers()
		var errs []error
		for _, dir := range c.remove {
			errs = append(errs, os.RemoveAll(dir))
		}
		c.closeErr = errors.Join(errs...)
	})
	return c.closeErr
}

// Endpoints are the members' client addresses, or those of their proxies, as
// clientv3 and storagebackend take them. Index i belongs to member i.
func (c *Cluster) Endpoints() []string { return slices.Clone(c.endpoints) }

// Member is member i, counted from 0.
func (c *Cluster) Member(i int) *embed.Etcd { return c.members[i] }

// Dir is the data directory of member i.
func (c *Cluster) Dir(i int) string { return filepath.Join(c.dir, memberName(i)) }

// Proxy is the proxy before member i. It panics without Config.Proxy.
func (c *Cluster) Proxy(i int) *Proxy { return c.proxies[i] }
