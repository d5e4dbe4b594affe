package server_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

// TestMain keeps the API servers' log out of the tests' output (-v shows it) and
// checks at the end that every server has stopped all it had started.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		flags := flag.NewFlagSet("klog", flag.PanicOnError)
		klog.InitFlags(flags)
		flags.Set("legacy_stderr_threshold_behavior", "false")
		flags.Set("stderrthreshold", "FATAL")
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(
			// Upstream starts this one once per process, for good: /healthz/log.
			goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"),
			// Upstream's consistent reads leave a timer of 3 s each behind.
			goleak.IgnoreTopFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"),
		); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}
