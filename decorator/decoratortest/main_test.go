package decoratortest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks at the end that every harness has stopped all it had started.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := leaks(); code == 0 && err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// leaks looks until nothing is left, or for about 10 s: upstream's waits for a fresh
// cache know no context and outlive their cache by up to 3 s.
func leaks() (err error) {
	for range 10 {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}
