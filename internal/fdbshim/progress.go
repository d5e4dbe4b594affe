package fdbshim

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// answerProgress answers a progress request: with the last commit that all watches
// were told of, which for the moment is the last of all.
func (s *watchStream) answerProgress() error {
	faults := s.server.Faults()
	switch {
	case faults.ProgressUnimplemented:
		return unimplemented("a progress request")
	case faults.NoProgress || len(s.watches) == 0:
		return nil
	}
	if _, _, err := s.deliver(); err != nil {
		return err
	}
	if s.server.store.cfg.RevisionPerPrefix {
		for _, w := range s.watches {
			if err := s.send(s.progress(w.id, w)); err != nil {
				return err
			}
		}
		return nil
	}
	resp := s.progress(-1, s.watches...)
	if resp == nil {
		return nil
	}
	s.asked++
	if faults.ProgressBack && s.asked%2 == 0 {
		resp.Header = s.server.header(s.before(resp.Header.Revision))
	}
	return s.send(resp)
}

// tellProgress tells the watches of it that asked for it once and for all.
func (s *watchStream) tellProgress() error {
	if s.server.Faults().NoProgress {
		return nil
	}
	for _, w := range s.watches {
		if resp := s.progress(w.id, w); resp != nil && w.request.ProgressNotify {
			if err := s.send(resp); err != nil {
				return err
			}
		}
	}
	return nil
}

// progress is the progress of watches: nil where an etcd says nothing, because one
// of them begins later. What is held back is passed over, which is why it is held.
func (s *watchStream) progress(id int64, watches ...*watch) *pb.WatchResponse {
	store := s.server.store
	store.mu.Lock()
	defer store.mu.Unlock()
	least := watches[0].space.last
	for _, w := range watches {
		if w.heldSince.IsZero() {
			least = min(least, w.at)
		}
		if store.cfg.LikeEtcd && w.next > w.space.last+1 {
			return nil
		}
		w.overtaken = !w.heldSince.IsZero()
	}
	return &pb.WatchResponse{Header: s.server.header(least), WatchId: id}
}

// before is the last commit but one up to a revision.
func (s *watchStream) before(revision int64) int64 {
	store := s.server.store
	store.mu.Lock()
	defer store.mu.Unlock()
	if commits := s.watches[0].space.since(0, revision-1); len(commits) > 0 {
		return commits[len(commits)-1].revision
	}
	return revision - 1
}
