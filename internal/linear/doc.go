// Package linear decides whether a recorded run of an API server was linearizable.
//
// Every answer carries its revision, and the backend's own history says what was
// true at each revision. So no search is needed: a run is linearizable if, and only
// if, each answer is exactly the state at its revision, and revisions never go down
// from an operation that ended to one that began after it. That is a sort and a
// sweep, n log n. (An answer without a revision, a GET, may stand at any revision
// where its key was so; it takes the lowest that is left. Since all bounds are lower
// bounds, that choice is never the wrong one.)
//
// A [Run] is recorded by any number of clients, and told the truth: the backend's
// revisions, from the first, whole and in order. They may come during the run, as a
// watch of the backend delivers them: then an answer is compared while its items
// are at hand. What is kept of it is a sum of hashes, so that a million operations
// fit in memory.
//
//	run := linear.New(linear.Config{SecondOpinion: []string{"/widgets/a/1"}})
//	client := run.Client("reader 3")
//	list := client.List("/widgets/", "")
//	... // the call itself
//	list.Answered(revision, items...) // or list.Failed()
//	...
//	err := run.Check().Err()
//
// Keys are the backend's, or anything else that is the same in the truth, the writes
// and the answers. A value is any text that tells one write of a key from another.
package linear
