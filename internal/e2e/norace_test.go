//go:build !race

package e2e

const callers = 5000
