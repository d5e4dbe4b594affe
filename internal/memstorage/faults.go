package memstorage

import "context"

// faults are the switches of a Storage, guarded by Backend.mu.
type faults struct {
	allowed   int           // items that watches may deliver; -1: any number
	changed   chan struct{} // closed when allowed is set
	frozen    uint64        // progress is never above it; 0: not frozen
	dropped   bool          // progress requests have no effect
	overtakes bool          // progress goes in front of what is queued
	revision  func(ctx context.Context, revision uint64) (uint64, error)
}

func newFaults() faults { return faults{allowed: -1, changed: make(chan struct{})} }

// Hold keeps back what the watches of this Storage deliver, from the next item on:
// events, bookmarks and the announcements of their revisions wait in order.
func (s *Storage) Hold() { s.allow(0) }

// Release lets watches deliver what was held, and all that follows.
func (s *Storage) Release() { s.allow(-1) }

// Step lets the watches of this Storage deliver n items in all, then holds.
func (s *Storage) Step(n int) { s.allow(n) }

func (s *Storage) allow(n int) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.faults.allowed = n
	close(s.faults.changed)
	s.faults.changed = make(chan struct{})
}

// CutAfter ends each watch that is open now when it has delivered n more events,
// in the middle of a revision where it comes to that. The channel is closed without
// an error, as by a lost connection. 0 ends them at once.
func (s *Storage) CutAfter(n int) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	for w := range s.backend.watches {
		if w.storage == s {
			w.cutLocked(n)
		}
	}
}

// SendProgress makes each watch deliver a bookmark at a revision of the caller's
// choice, behind what is queued: below what was delivered, kine does so; above what
// exists, nothing should.
func (s *Storage) SendProgress(revision uint64) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	for w := range s.backend.watches {
		if w.storage == s {
			w.appendLocked(item{progress: revision})
		}
	}
}

// FreezeProgress makes progress stand still at the present revision while events
// and the revision go on, as kine's can; false lets it move again.
func (s *Storage) FreezeProgress(frozen bool) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.faults.frozen = 0
	if frozen {
		s.faults.frozen = s.backend.history.revision
	}
}

// DropProgress makes progress requests go unanswered, as etcd's do while a watch
// is not synced.
func (s *Storage) DropProgress(dropped bool) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.faults.dropped = dropped
}

// OvertakeProgress puts progress in front of the events that a watch has not
// delivered yet, as etcd before 3.4.25 and 3.5.8 did (etcd-io/etcd#15220).
func (s *Storage) OvertakeProgress(overtakes bool) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.faults.overtakes = overtakes
}

// OnRevision makes GetCurrentResourceVersion answer what answer returns, which is
// told the present revision and may block, fail or lie. nil takes that back.
func (s *Storage) OnRevision(answer func(ctx context.Context, revision uint64) (uint64, error)) {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	s.faults.revision = answer
}
