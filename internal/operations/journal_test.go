package operations

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// journal has what was logged.
var journal lines

type lines struct {
	mu  sync.Mutex
	all []string
}

// TestMain has the log written to the journal, too, before anything logs.
func TestMain(m *testing.M) {
	klog.SetLogger(funcr.New(func(_, line string) {
		journal.mu.Lock()
		defer journal.mu.Unlock()
		journal.all = append(journal.all, line)
		fmt.Fprintln(os.Stderr, line)
	}, funcr.Options{LogTimestamp: true}))
	os.Exit(m.Run())
}

// len is how many lines there are, for since.
func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// since counts the lines from one on that have a text.
func (l *lines) since(from int, text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all[from:] {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
