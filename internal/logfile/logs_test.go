package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	log := create(t, "log")
	if got := lastLines(log); got != "" {
		t.Errorf("of an empty log: %q", got)
	}
	for i := range 30 {
		fmt.Fprintf(log, "line %d\n", i)
	}
	got := lastLines(log)
	if !strings.HasPrefix(got, "The end of the log:\nline 10\n") || !strings.HasSuffix(got, "\nline 29\n\n") {
		t.Errorf("%q", got)
	}
}

// TestRedirect: who has the file already writes to the other one, too.
func TestRedirect(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("logs stay on the page")
	}
	from, to := create(t, "from"), create(t, "to")
	was, err := redirect(from, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { was.Close() })
	fmt.Fprint(from, "a log")
	fmt.Fprint(was, "a message")
	for path, want := range map[string]string{from.Name(): "a message", to.Name(): "a log"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), got, err, want)
		}
	}
}

func create(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
