package freshness

import "context"

// Reading is what a Source read from the backend in one linearizable read.
type Reading struct {
	// Revision is the newest revision of the backend at a moment between the
	// sending of the read and its answer. Zero is no revision, and no floor.
	Revision uint64
	// Witness is the value of the key that proves the backend's history to be
	// the one known (see Chain); nil when there is none. It must not be changed.
	Witness []byte
	// Created says that the read did not find the witness's key, and made it.
	Created bool
	// ClusterID, MemberID and RaftTerm identify the backend, which of its members
	// answered, and the term of what that has applied, as etcd does; 0 where the
	// backend has no such thing.
	ClusterID, MemberID, RaftTerm uint64
}

// Source reads the revision of a backend.
type Source interface {
	// Read makes one linearizable read: what it returns covers every write that
	// the backend acknowledged before Read was called. It must return when ctx
	// ends, and must not answer from memory. An error that is a *RewoundError is
	// the source's own finding that the history went back. Floors never calls it
	// while a call of its own is in flight.
	Read(ctx context.Context) (Reading, error)
}

// PromptSource is a Source whose Read returns at once when its context ends,
// whatever the backend does. Floors lets a caller who comes alone read it on its own
// goroutine, which is a tenth quicker; another source it only trusts to return some
// time, and a caller whose context ends must not wait for that.
type PromptSource interface {
	Source
	// PromptRead is not called.
	PromptRead()
}

// SourceFunc makes a Source of a function that reads the revision alone, such
// as the GetCurrentResourceVersion of a storage. What Source.Read says holds
// for it.
type SourceFunc func(ctx context.Context) (uint64, error)

// Read calls f.
func (f SourceFunc) Read(ctx context.Context) (Reading, error) {
	revision, err := f(ctx)
	return Reading{Revision: revision}, err
}
