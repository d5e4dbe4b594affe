package main

import (
	"flag"
	"strconv"

	"k8s.io/klog/v2"
)

// setUpLogging sends the API server's log to standard error. klog prints its
// informational lines even at verbosity 0; here that level means warnings and
// errors only, so that the lines to try stay in sight.
func setUpLogging(verbosity int) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	threshold := "WARNING"
	if verbosity > 0 {
		threshold = "INFO"
	}
	for name, value := range map[string]string{
		"v":                                strconv.Itoa(verbosity),
		"stderrthreshold":                  threshold,
		"legacy_stderr_threshold_behavior": "false", // else the threshold is ignored
	} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}
