package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// binary builds the program, once for all tests, and returns its path.
var binary func() (string, error)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rvfloor-apiserver-test-")
	if err != nil {
		panic(err)
	}
	binary = sync.OnceValues(func() (string, error) {
		path := filepath.Join(dir, "apiserver")
		if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return path, nil
	})
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// process is the program, running.
type process struct {
	url, kubeconfig string
	cmd             *exec.Cmd
	stdout          *bufio.Scanner
	stderr          bytes.Buffer
	printed         []string
}

// startProcess starts the program, with temp for its temporary files, and returns
// when it serves. ctx kills it.
func startProcess(t *testing.T, ctx context.Context, temp string, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no process can send SIGINT to another one there")
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(ctx, path, args...)}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewScanner(stdout)
	for p.stdout.Scan() && p.stdout.Text() != "Ctrl-C stops it." {
		p.printed = append(p.printed, p.stdout.Text())
		if after, ok := strings.CutPrefix(p.stdout.Text(), "Serving on "); ok {
			p.url = after
		}
		if after, ok := strings.CutPrefix(p.stdout.Text(), "Kubeconfig "); ok {
			p.kubeconfig = after
		}
	}
	if p.url == "" || p.kubeconfig == "" {
		t.Fatalf("it does not say where it serves, or its kubeconfig: %q; %v: %s", p.printed, p.cmd.Wait(), &p.stderr)
	}
	return p
}

// wait waits until the process, which was told to end, has done so. On standard error
// it must have said nothing that complaints finds; what it printed is in printed.
func (p *process) wait(t *testing.T) {
	t.Helper()
	for p.stdout.Scan() { // to the end, else Wait would cut it off
		p.printed = append(p.printed, p.stdout.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	for _, line := range complaints(p.stderr.String()) {
		t.Errorf("on standard error: %s", line)
	}
}

// logged is how klog begins a line: the severity, and the file that logged it.
var logged = regexp.MustCompile(`^([IWEF])\d{4} [\d:.]+ +\d+ ([\w.-]+\.go):\d+\] `)

// complaints are the lines that tell of a fault: all but those that the API server's
// libraries log of what may happen to any server. A client that went while it was written
// to is one of them ("Failed to encode watch event"), and on a busy machine they are many.
func complaints(stderr string) (lines []string) {
	for line := range strings.Lines(stderr) {
		head := logged.FindStringSubmatch(line)
		if head == nil || head[1] == "F" || ours()[head[2]] || strings.Contains(line, "panic") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// ours are the names of the files of this repository that log.
var ours = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("klog.")) {
			names[entry.Name()] = true
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return names
})

func TestComplaints(t *testing.T) {
	for line, complaint := range map[string]bool{
		`E1201 03:04:05.678901   12345 wrap.go:53] "Timeout or abort while handling" method="GET"`:                               false,
		`E1201 03:04:05.678901   12345 watch.go:288] "Unhandled Error" err="Failed to encode watch event: http2: stream closed"`: false,
		`E1201 03:04:05.678901   12345 runtime.go:142] "Observed a panic" panic="x"`:                                             true,
		`E1201 03:04:05.678901   12345 observe.go:120] "A read was answered below its floor"`:                                    true,
		`F1201 03:04:05.678901   12345 server.go:1] "no port"`:                                                                   true,
		`goroutine 1 [running]:`: true,
		`apiserver: stopping: x`: true,
	} {
		if got := complaints(line + "\n"); (len(got) > 0) != complaint {
			t.Errorf("%s: %q, want a complaint: %t", line, got, complaint)
		}
	}
}
