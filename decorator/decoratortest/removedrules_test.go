package decoratortest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fast is the part of our own tests that each child runs: with every helper, and in
// memory.
const fast = "TestInMemory/Feed"

// removals are the library with one rule removed.
var removals = []struct {
	name  string
	rules string // the tests of Run that belong to the rule, any of which notices
	edits []edit
}{
	{"no gate", "Gate", []edit{
		{"decorator/read.go", "ahead.Wait(ctx, target)", "ahead.Wait(ctx, 0)"},
	}},
	{"a read in flight is joined", "JoinRule|JoinRuleInFlight", []edit{
		{"internal/joinnext/group.go", "b = g.nextLocked()", "b = g.flying\nif b == nil || b.finished { b = g.nextLocked() }"},
	}},
	{"an event proves its own revision", "Completeness", []edit{
		{"decorator/feedwatch.go", "w.at.seen == w.size", "true"},
		{"decorator/feedwatch.go", "revision <= w.at.whole", "revision < w.at.whole"},
	}},
	{"lists do not look for torn revisions", "Completeness", []edit{
		{"decorator/store.go", "torn(whole, revision)", "torn(whole, 0)"},
	}},
	{"watches do not look for torn revisions", "Completeness", []edit{
		{"decorator/store.go", "torn == 0", "torn >= 0"},
	}},
	{"no check on the way out", "ExitCheck", []edit{
		{"decorator/store.go", "revision < floor", "false"},
	}},
	{"no check for the future", "FutureCheck", []edit{
		{"decorator/read.go", "r.route.least > f.Revision", "false"},
	}},
}

// edit puts other text in the place of what is in a file once. The path is from the
// root of the module.
type edit struct{ file, old, new string }

// TestRemovedRules: Run fails on a Store with any one rule removed, and passes as it
// is.
func TestRemovedRules(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the library once for each rule")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("none", func(t *testing.T) {
		if failed, output := child(t, root, nil, ".*"); len(failed) != 0 {
			t.Fatalf("with every rule in place these failed: %q\n%s", failed, output)
		}
	})
	for _, m := range removals {
		t.Run(m.name, func(t *testing.T) {
			replaced := map[string]string{}
			for _, e := range m.edits {
				path := filepath.Join(root, e.file)
				text, begun := replaced[path]
				if !begun {
					source, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					text = string(source)
				}
				if n := strings.Count(text, e.old); n != 1 {
					t.Fatalf("%s has %q %d times and not once: the removal %q in decorator/decoratortest/removedrules_test.go has lost its place. "+
						"Find where %s keeps the rule that %s tests now, and set old and new of the removal to that",
						e.file, e.old, n, m.name, e.file, m.rules)
				}
				replaced[path] = strings.Replace(text, e.old, e.new, 1)
			}
			failed, output := child(t, root, replaced, "^("+m.rules+")$")
			if len(failed) == 0 {
				t.Fatalf("no test of %s noticed\n%s", m.rules, output)
			}
			_, why, _ := strings.Cut(output, "promised: ")
			why, _, _ = strings.Cut(why, "probably: ")
			t.Logf("noticed by %q, first:\npromised: %s", failed, why)
		})
	}
}

// child runs those of the fast tests that match, with some files replaced, and returns
// the names of those that failed. It must build, and end by itself.
func child(t *testing.T, root string, replaced map[string]string, match string) (failed []string, output string) {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range replaced {
		overlay.Replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(overlay.Replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(fast, "/")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count", "1", "-vet", "off", "-timeout", "120s",
		"-overlay", file, "-run", "^"+strings.Join(parts, "$/^")+"$/"+match, "./decorator/decoratortest")
	cmd.Dir = root
	// A test that go test stops must not leave its own child behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, runErr := cmd.CombinedOutput()

	passed := false
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			text.Write(append(lines.Bytes(), '\n'))
			continue
		}
		text.WriteString(event.Output)
		switch {
		case event.Action == "fail" && strings.HasPrefix(event.Test, fast+"/"):
			failed = append(failed, event.Test)
		case event.Action == "pass" && strings.HasPrefix(event.Test, fast+"/"):
			passed = true
		}
	}
	output = text.String()
	switch {
	case strings.Contains(output, "panic: test timed out"):
		t.Fatalf("the child did not end by itself:\n%s", output)
	case len(failed) == 0 && (!passed || runErr != nil):
		t.Fatalf("the child ran no test: %v\n%s", runErr, output)
	}
	return failed, output
}
