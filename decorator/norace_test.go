//go:build !race

package decorator

const raced = false
