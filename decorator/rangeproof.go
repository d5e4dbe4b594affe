package decorator

import "context"

// Prover reads, linearizably and from one snapshot, what has become of the keys of a
// resource since a revision. It must return when ctx ends.
type Prover func(ctx context.Context, since uint64) (Proof, error)

// Proof is what a Prover read.
type Proof struct {
	// Revision is that of the snapshot.
	Revision uint64
	// Newer says that a key was written after since.
	Newer bool
	// Count is how many keys there are.
	Count int64
}
