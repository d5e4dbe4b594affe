package probe

import (
	"errors"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/freshness"
)

const (
	// defaultLimit bounds a probe of a backend that is slow, or stands still: each
	// thing that does not happen is waited for once or twice.
	defaultLimit = 10 * time.Second
	// defaultEffort is some ten rounds of concurrent writes on an etcd nearby.
	defaultEffort = 100 * time.Millisecond
	// patience is how long something is waited for before it counts as not happening:
	// the slowest that is known to come, progress of one kine after a write through
	// another, takes up to a second.
	patience = 1500 * time.Millisecond
	// cleanupTime bounds the deletions at the end, which come after the limit.
	cleanupTime = 2 * time.Second
)

// Config says what is probed.
type Config struct {
	// Clients are two or more of one backend, with connections of their own, best to
	// different members of it. They stay their owner's to close. Required.
	Clients []*clientv3.Client
	// Prefix is where keys are written and deleted again, under a random name. It ends
	// in "/". Empty means PrefixFor of the sentinel's usual key.
	Prefix string
	// Limit bounds the whole, but for the deletions; 0 means 10 s. An etcd nearby takes
	// some hundred milliseconds, up to a second.
	Limit time.Duration
	// Effort is how long the trials under concurrent writers go on, and so how unlikely it
	// is that a rare fault is missed. Three rounds are made in any case. 0 means 100 ms.
	Effort time.Duration
}

// PrefixFor is the prefix beside a sentinel's key, such as /registry/rvfloor/probe/
// for /registry/rvfloor/sentinel.
func PrefixFor(sentinelKey string) string { return path.Join(path.Dir(sentinelKey), "probe") + "/" }

func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = PrefixFor(freshness.SentinelKey("/registry"))
	}
	if c.Limit == 0 {
		c.Limit = defaultLimit
	}
	if c.Effort == 0 {
		c.Effort = defaultEffort
	}
	switch {
	case len(c.Clients) < 2:
		return c, errors.New("probe: Config.Clients needs two clients of the backend: what one has written the other must read")
	case !strings.HasSuffix(c.Prefix, "/"):
		return c, errors.New("probe: Config.Prefix must end in /")
	case c.Limit < 0 || c.Effort < 0:
		return c, errors.New("probe: Config.Limit and Config.Effort must not be negative; 0 means the default")
	}
	return c, nil
}
