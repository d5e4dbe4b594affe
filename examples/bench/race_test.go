//go:build race

package main

// underRace: the race detector slows the sides by different factors, so that only
// their counts and answers are asserted.
const underRace = true
