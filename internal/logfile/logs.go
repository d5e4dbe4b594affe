// Package logfile keeps the logs of the libraries that an example uses off the page
// that it prints.
package logfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// tailLines of the log are shown when something went wrong.
const tailLines = 20

// Capture keeps what upstream's logs say off the page: they go to stderr, each by a
// logger of its own that was made before main, so the process's standard error
// becomes a file. It returns the real one, and what reads the end of the file, for
// after an error. Where that cannot be done, the logs stay on the page.
func Capture() (stderr *os.File, tail func() string) {
	none := func() string { return "" }
	log, err := os.CreateTemp("", "rvfloor-*.log")
	if err != nil {
		return os.Stderr, none
	}
	_ = os.Remove(log.Name()) // it is open, and goes with the process
	stderr, err = redirect(os.Stderr, log)
	if err != nil {
		return os.Stderr, none
	}
	_ = debug.SetCrashOutput(stderr, debug.CrashOptions{}) // a panic is to be seen
	return stderr, func() string { return lastLines(log) }
}

// lastLines are what a user sees of the log after an error.
func lastLines(log *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(log, 0, 1<<40))
	if err != nil {
		return fmt.Sprintf("The log cannot be read: %v\n", err)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	lines := strings.Split(string(text), "\n")
	return "The end of the log:\n" + strings.Join(lines[max(0, len(lines)-tailLines):], "\n") + "\n\n"
}
