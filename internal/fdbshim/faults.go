package fdbshim

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Faults are ways in which a process can be worse than it should be, each seen in a
// backend for API servers. The zero value has none.
type Faults struct {
	// NoProgress leaves progress unanswered, requested or not, as kubebrain does.
	NoProgress bool
	// ProgressUnimplemented ends a watch stream on which progress is requested.
	ProgressUnimplemented bool
	// ProgressBack makes every second answer to a progress request older than the one
	// before, as kine's over PostgreSQL are. It is never above what was delivered.
	ProgressBack bool
	// ProgressAheadOfCatchUp holds the events that a watch begins with, for [Options.Lag]
	// or until a progress request was answered as if they had been delivered; so did etcd
	// before 3.4.25 and 3.5.8.
	ProgressAheadOfCatchUp bool
	// ProgressAheadOfLive does the same with the events that come later.
	ProgressAheadOfLive bool
	// CreatedZero leaves the revision out of the response that says that a watch was
	// created, as k8s-dqlite does.
	CreatedZero bool
	// WatchesLag delivers events only when they are as old as [Options.Lag], and progress
	// with them: a process that polls the database does. It breaks no promise.
	WatchesLag bool
	// LoseEvents delivers of each watch but three of four commits, and progress as if it
	// had delivered all. What kine over PostgreSQL loses (kine#676) is rarer.
	LoseEvents bool

	// ReadsLag answers ranges with the state, and the revision, of [Options.Lag] ago.
	ReadsLag bool
	// ReadsLagForOthers does the same but for what was written through the connection
	// that asks.
	ReadsLagForOthers bool
	// MissingLags answers a range of one key that is missing with the revision of
	// [Options.Lag] ago, as kine has from a counter in memory.
	MissingLags bool

	// NoFilters refuses ranges by mod or create revision, as kine does.
	NoFilters bool
	// NoSerializable refuses serializable ranges, as kine does.
	NoSerializable bool
	// ZeroRevision leaves the revision out of all headers.
	ZeroRevision bool
	// OneWatchPerStream refuses a second watch on a stream, as mem_etcd does.
	OneWatchPerStream bool
}

func unimplemented(what string) error {
	return status.Errorf(codes.Unimplemented, "fdbshim: %s is not implemented", what)
}
