//go:build race

package e2e

// callers of a storm under the race detector, which makes each of them ten times as
// slow: more would wait longer for a core than reads may wait at all.
const callers = 1000
