package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// processTimeout is far above what the program takes.
const processTimeout = 2 * time.Minute

// TestProcess runs the program as a person would, its output to a pipe.
func TestProcess(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := func(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
		ctx, cancel := context.WithTimeout(t.Context(), processTimeout)
		t.Cleanup(cancel)
		cmd, stderr = exec.CommandContext(ctx, binary, args...), &bytes.Buffer{}
		cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+t.TempDir()), stderr
		return cmd, stderr
	}

	t.Run("plain", func(t *testing.T) {
		cmd, stderr := command(t, "--quick")
		stdout, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		expectPage(t, string(stdout))
		for i, s := range scenes(quickSizes) {
			if !strings.Contains(string(stdout), s.title+"\n") {
				t.Errorf("no scene %d, %q, on the page", i+1, s.title)
			}
		}
		if n := strings.Count(string(stdout), "   => "); n != 5 {
			t.Errorf("%d verdicts, want 5", n)
		}
		if strings.ContainsAny(string(stdout), "\x1b\r") || stderr.Len() > 0 || strings.Contains(string(stdout), "NOT AS CLAIMED") {
			t.Errorf("stdout:\n%s\nstderr:\n%s", stdout, stderr)
		}
	})

	t.Run("interrupt", func(t *testing.T) {
		cmd, stderr := command(t, "--plain")
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "1  ") {
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			t.Errorf("after the interrupt: %s", lines.Text())
		}
		expectExit(t, cmd.Wait(), 130)
		if stderr.String() != "quickstart: stopped\n" {
			t.Errorf("stderr: %s", stderr)
		}
		left, err := os.ReadDir(tempDir(cmd))
		if err != nil || len(left) > 0 {
			t.Errorf("files left behind: %v, %v", left, err)
		}
	})

	t.Run("failure", func(t *testing.T) {
		cmd, stderr := command(t)
		cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(t.TempDir(), "missing"))
		expectExit(t, cmd.Run(), 1)
		if !strings.Contains(stderr.String(), "quickstart: start: ") || !strings.Contains(stderr.String(), "missing") {
			t.Errorf("stderr: %s", stderr)
		}
	})

	t.Run("flag", func(t *testing.T) {
		cmd, stderr := command(t, "--fast")
		expectExit(t, cmd.Run(), 2)
		if !strings.Contains(stderr.String(), "-fast") {
			t.Errorf("stderr: %s", stderr)
		}
	})
}

func tempDir(cmd *exec.Cmd) string {
	dir := ""
	for _, variable := range cmd.Env {
		if value, ok := strings.CutPrefix(variable, "TMPDIR="); ok {
			dir = value
		}
	}
	return dir
}

func expectExit(t *testing.T, err error, status int) {
	t.Helper()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != status {
		t.Errorf("ended with %v, want exit status %d", err, status)
	}
}
