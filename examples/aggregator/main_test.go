package aggregator

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

// TestMain keeps the servers' logs out of the tests' output (-v shows them), and
// checks that they have stopped all they had started.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		flags := flag.NewFlagSet("klog", flag.PanicOnError)
		klog.InitFlags(flags)
		flags.Set("legacy_stderr_threshold_behavior", "false")
		flags.Set("stderrthreshold", "FATAL")
	}
	code := m.Run()
	if err := leaks(); code == 0 && err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// leaks looks for about 10 s: upstream's waits for a fresh cache outlive their
// server by up to 3 s.
func leaks() (err error) {
	for range 10 {
		// Upstream starts this one once per process, for good: /healthz/log.
		if err = goleak.Find(goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever")); err == nil {
			return nil
		}
	}
	return err
}
