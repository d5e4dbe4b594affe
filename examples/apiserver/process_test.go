package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// wait waits until the process, which was told to end, has done so. It must have
// said nothing on standard error; what it printed is in printed.
func (p *process) wait(t *testing.T) {
	t.Helper()
	for p.stdout.Scan() { // to the end, else Wait would cut it off
		p.printed = append(p.printed, p.stdout.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if p.stderr.Len() > 0 {
		t.Errorf("on standard error: %s", &p.stderr)
	}
}
