package fdbshim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// lease deletes its keys when its time is over: at one revision, unless they have
// none in common.
type lease struct {
	ttl   int64 // seconds
	ends  time.Time
	timer *time.Timer
	keys  map[string]bool
}

// grant makes a lease; id 0 means any. ttl is in seconds.
func (s *Store) grant(id, ttl int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id == 0 || s.leases[id] != nil {
		if id != 0 {
			return 0, rpctypes.ErrGRPCLeaseExist
		}
		id = rand.Int64()
	}
	l := &lease{ttl: max(ttl, 1), keys: map[string]bool{}}
	l.ends = time.Now().Add(l.duration())
	l.timer = time.AfterFunc(l.duration(), func() { s.expire(id) })
	if s.closed {
		l.timer.Stop()
	}
	s.leases[id] = l
	return id, nil
}

func (l *lease) duration() time.Duration { return time.Duration(l.ttl) * time.Second }

// keepAlive gives a lease its whole time again, and returns that in seconds: 0 where
// there is no such lease.
func (s *Store) keepAlive(id int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return 0
	}
	l.ends = time.Now().Add(l.duration())
	l.timer.Reset(l.duration())
	return l.ttl
}

// expire ends a lease, unless it was kept alive meanwhile.
func (s *Store) expire(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[id]; l != nil && !s.closed && !time.Now().Before(l.ends) {
		s.revokeLocked(id)
	}
}

// revoke ends a lease.
func (s *Store) revoke(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[id] == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	s.revokeLocked(id)
	return nil
}

func (s *Store) revokeLocked(id int64) {
	l := s.leases[id]
	l.timer.Stop()
	delete(s.leases, id)
	keys := map[*space][]string{}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		sp := s.spaceLocked([]byte(key))
		keys[sp] = append(keys[sp], key)
	}
	for sp, keys := range keys {
		_, _ = s.transactLocked(sp, func(t *tx) error {
			for _, key := range keys {
				t.deleteRange(&pb.DeleteRangeRequest{Key: []byte(key)})
			}
			return nil
		})
	}
}

// attachLocked takes a key from one lease to another; 0 means none.
func (s *Store) attachLocked(key string, from, to int64) {
	if l := s.leases[from]; l != nil {
		delete(l.keys, key)
	}
	if l := s.leases[to]; l != nil {
		l.keys[key] = true
	}
}
