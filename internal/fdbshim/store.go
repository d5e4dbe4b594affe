package fdbshim

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Config says what a [Store] is like. The zero value is a FoundationDB.
type Config struct {
	// LikeEtcd makes revisions dense, and a read's revision that of the last write,
	// which progress reaches.
	LikeEtcd bool
	// RevisionPerPrefix gives keys that differ in the first two segments of their path
	// ("/registry/pods/") revisions of their own, as a DynamoDB store has for its
	// resources. A transaction works on the prefix of its first key.
	RevisionPerPrefix bool
}

// Store is a database. Its methods may be called from any goroutine.
type Store struct {
	cfg       Config
	clusterID uint64
	began     time.Time

	mu      sync.Mutex
	spaces  map[string]*space
	changed chan struct{} // closed, and replaced, when something was committed
	leases  map[int64]*lease
	closed  bool
}

// NewStore returns an empty database. Close ends it.
func NewStore(cfg Config) *Store {
	return &Store{
		cfg:       cfg,
		clusterID: rand.Uint64(),
		began:     time.Now(),
		spaces:    map[string]*space{},
		changed:   make(chan struct{}),
		leases:    map[int64]*lease{},
	}
}

// Close ends the leases, without deleting what they hold. Servers are their owners'
// to close, before.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.leases {
		l.timer.Stop()
	}
}

// spaceLocked is the revision space of a key.
func (s *Store) spaceLocked(key []byte) *space {
	name := ""
	if s.cfg.RevisionPerPrefix {
		if parts := strings.SplitAfterN(string(key), "/", 4); len(parts) > 3 {
			name = strings.Join(parts[:3], "")
		}
	}
	sp := s.spaces[name]
	if sp == nil {
		first := int64(1) // as an empty etcd
		if !s.cfg.LikeEtcd {
			first = firstVersion
		}
		sp = &space{last: first, issued: first}
		s.spaces[name] = sp
	}
	return sp
}

const (
	// firstVersion is far above what an etcd comes to in a test.
	firstVersion = 1 << 40
	// versionsPerSecond is FoundationDB's pace.
	versionsPerSecond = 1_000_000
)

// readVersionLocked is a revision at which all is seen that was committed, and above
// which all is that will be.
func (s *Store) readVersionLocked(sp *space) int64 {
	if !s.cfg.LikeEtcd {
		sp.issued = max(sp.issued, s.clock())
	}
	return sp.issued
}

// nextLocked is the revision of a commit.
func (s *Store) nextLocked(sp *space) int64 {
	next := sp.issued + 1
	if !s.cfg.LikeEtcd {
		next = max(next, s.clock())
	}
	return next
}

func (s *Store) clock() int64 {
	return firstVersion + int64(time.Since(s.began)/(time.Second/versionsPerSecond))
}

// commitLocked makes what a transaction did known.
func (s *Store) commitLocked(sp *space, c commit) {
	sp.log = append(sp.log, c)
	sp.last, sp.issued = c.revision, c.revision
	close(s.changed)
	s.changed = make(chan struct{})
}
