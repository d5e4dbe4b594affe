//go:build race

package decorator

// raced: the race detector allocates, too.
const raced = true
