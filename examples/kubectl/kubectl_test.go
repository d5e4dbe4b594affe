package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// patience decides only how long a broken test hangs.
const patience = time.Minute

const samples = "../apiserver/samples"

// TestKubectl takes a server with rvfloor through what people do with kubectl,
// each command a process of its own that knows nothing but the kubeconfig that
// the server wrote.
func TestKubectl(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kubectl")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	running, err := server.Start(ctx, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if err := running.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	defer stop()
	k := &kubectl{t: t, ctx: ctx, binary: binary, kubeconfig: running.Kubeconfig, home: t.TempDir()}

	k.says("apply -f "+samples, "",
		"widget.demo.rvfloor.dev/anvil created",
		"widget.demo.rvfloor.dev/balloon created",
		"widget.demo.rvfloor.dev/cup created",
		"ticket.demo.rvfloor.dev/one-hour created",
		"machine.plant.rvfloor.dev/press created")
	k.says("apply -f "+samples, "",
		"widget.demo.rvfloor.dev/anvil unchanged",
		"widget.demo.rvfloor.dev/balloon unchanged",
		"widget.demo.rvfloor.dev/cup unchanged",
		"ticket.demo.rvfloor.dev/one-hour unchanged",
		"machine.plant.rvfloor.dev/press unchanged")

	t.Run("get", func(t *testing.T) {
		k := k.in(t)
		k.says("get widgets", "",
			"NAME COLOR SIZE PHASE AGE",
			"anvil grey 3 age",
			"balloon red 1 age",
			"cup red 0 age")
		k.says("get mc --no-headers", "", "press P-100 0 age")
		k.says("get wd -l tier=light -o name", "", "widget.demo.rvfloor.dev/balloon", "widget.demo.rvfloor.dev/cup")
		k.says("get wd --field-selector spec.color=red,metadata.name!=cup -o name", "", "widget.demo.rvfloor.dev/balloon")
		k.says("get widget anvil -o jsonpath={.spec.size}", "", "3")
		k.fails("get widget none", "", `widgets.demo.rvfloor.dev "none" not found`)
		k.fails("get wd --field-selector spec.size=1", "", "use metadata.name, metadata.namespace or one of")
	})

	t.Run("get in chunks", func(t *testing.T) {
		out, log := k.in(t).run("get widgets --chunk-size=2 -o name --v=6", "")
		if want := "widget.demo.rvfloor.dev/anvil\nwidget.demo.rvfloor.dev/balloon\nwidget.demo.rvfloor.dev/cup\n"; out != want {
			t.Errorf("got %q", out)
		}
		if first, second := strings.Count(log, "widgets?limit=2"), strings.Count(log, "widgets?continue="); first != 1 || second != 1 {
			t.Errorf("%d requests for a first chunk and %d for a later one, want one of each:\n%s", first, second, log)
		}
	})

	t.Run("apply", func(t *testing.T) {
		k := k.in(t)
		k.says("apply -f -", widget("anvil", "color: grey\n  size: 4"), "widget.demo.rvfloor.dev/anvil configured")
		k.says("get widget anvil -o jsonpath={.spec.size}", "", "4")
		k.fails("apply -f -", widget("anvil", "colour: grey"), `unknown field "spec.colour"`)
	})

	t.Run("apply on the server", func(t *testing.T) {
		k := k.in(t)
		applied := "widget.demo.rvfloor.dev/drum serverside-applied"
		k.says("apply --server-side -f -", widget("drum", "color: green\n  size: 1"), applied)
		// Somebody else may not take over a field, but may add one.
		k.fails("apply --server-side --field-manager=other -f -", widget("drum", "color: black"), "conflict with \"kubectl\": .spec.color")
		k.says("apply --server-side --field-manager=other --force-conflicts -f -", widget("drum", "color: black"), applied)
		k.says("get widget drum -o jsonpath={.spec.color},{.spec.size}", "", "black,1")
		// What its only owner no longer names goes.
		k.says("apply --server-side -f -", widget("drum", "{}"), applied)
		k.says("get widget drum -o jsonpath={.spec.color},{.spec.size}", "", "black,")
	})

	t.Run("patch", func(t *testing.T) {
		k := k.in(t)
		k.says(`patch widget balloon --type=merge -p {"spec":{"size":7}}`, "", "widget.demo.rvfloor.dev/balloon patched")
		k.says(`patch widget balloon --type=json -p [{"op":"remove","path":"/spec/color"}]`, "", "widget.demo.rvfloor.dev/balloon patched")
		k.says("get widget balloon -o jsonpath={.spec}", "", `{"size":7}`)
		k.says(`patch machine press --type=merge --subresource=status -p {"spec":{"model":"ignored"},"status":{"state":"Running","made":12}}`, "",
			"machine.plant.rvfloor.dev/press patched")
		k.says("get machines --no-headers --field-selector status.state=Running", "", "press P-100 Running 12 age")
		k.fails(`patch widget balloon --type=merge -p {"spec":{"size":-1}}`, "", "must be 0 or more")
	})

	t.Run("explain", func(t *testing.T) {
		for arg, want := range map[string][]string{
			"widgets.spec.size":      {"VERSION:    v1\n", "FIELD: size <integer>", "0 or more, without a unit."},
			"machines":               {"GROUP:      plant.rvfloor.dev", "VERSION:    v1alpha1", "Machine makes widgets."},
			"tickets.spec":           {"ttlSeconds\t<integer>"},
			"machines.metadata.name": {"FIELD: name <string>"},
			"widgets.status --output=plaintext-openapiv2": {"observedGeneration"},
		} {
			out, _ := k.in(t).run("explain "+arg, "")
			for _, s := range want {
				if !strings.Contains(out, s) {
					t.Errorf("explain %s does not say %q:\n%s", arg, s, out)
				}
			}
		}
	})

	t.Run("discovery", func(t *testing.T) {
		k := k.in(t)
		k.says("api-resources --no-headers -o wide --sort-by=name", "",
			"machines mc plant.rvfloor.dev/v1alpha1 false Machine create,delete,deletecollection,get,list,patch,update,watch",
			"tickets tk demo.rvfloor.dev/v1 true Ticket create,delete,deletecollection,get,list,patch,update,watch",
			"widgets wd demo.rvfloor.dev/v1 true Widget create,delete,deletecollection,get,list,patch,update,watch")
		k.says("get --raw /readyz", "", "ok")
		k.says("get --raw /livez", "", "ok")
		if metrics, _ := k.run("get --raw /metrics", ""); !strings.Contains(metrics, `rvfloor_reads_total{`) {
			t.Error("/metrics has no rvfloor_reads_total")
		}
	})

	// Two watches see the deletes, and end with the server.
	watch := k.watch("get widgets --watch --output-watch-events --no-headers")
	watch.says("ADDED anvil grey 4 age", "ADDED balloon 7 age", "ADDED cup red 0 age", "ADDED drum black 0 age")
	only := k.watch("get widgets --watch --field-selector metadata.name=cup -o name")
	only.says("widget.demo.rvfloor.dev/cup")
	k.says("delete widget drum", "", `widget.demo.rvfloor.dev "drum" deleted from default namespace`)
	watch.says("DELETED drum black 0 age")
	k.says("delete -f "+samples, "",
		`widget.demo.rvfloor.dev "anvil" deleted from default namespace`,
		`widget.demo.rvfloor.dev "balloon" deleted from default namespace`,
		`widget.demo.rvfloor.dev "cup" deleted from default namespace`,
		`ticket.demo.rvfloor.dev "one-hour" deleted from default namespace`,
		`machine.plant.rvfloor.dev "press" deleted`)
	watch.says("DELETED anvil grey 4 age", "DELETED balloon 7 age", "DELETED cup red 0 age")
	only.says("widget.demo.rvfloor.dev/cup") // once more
	stop()
	watch.ends()
	only.ends()
}

// widget is a manifest.
func widget(name, spec string) string {
	return "apiVersion: demo.rvfloor.dev/v1\nkind: Widget\nmetadata:\n  name: " + name + "\nspec:\n  " + spec + "\n"
}

// kubectl runs commands against one server.
type kubectl struct {
	t                        *testing.T
	ctx                      context.Context
	binary, kubeconfig, home string
}

// in fails the test t and not the one that k was made for.
func (k *kubectl) in(t *testing.T) *kubectl {
	c := *k
	c.t = t
	return &c
}

// command is kubectl with the words of a line; no argument here has a space.
func (k *kubectl) command(line, stdin string) *exec.Cmd {
	cmd := exec.CommandContext(k.ctx, k.binary, append(strings.Fields(line), "--kubeconfig", k.kubeconfig)...)
	cmd.Env = []string{"HOME=" + k.home}
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

func (k *kubectl) run(line, stdin string) (stdout, stderr string) {
	k.t.Helper()
	var out, errs bytes.Buffer
	cmd := k.command(line, stdin)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		k.t.Fatalf("kubectl %s: %v\n%s%s", line, err, &out, &errs)
	}
	return out.String(), errs.String()
}

// says runs a command that succeeds and compares the lines of its output.
func (k *kubectl) says(line, stdin string, want ...string) {
	k.t.Helper()
	out, _ := k.run(line, stdin)
	var got []string
	for l := range strings.Lines(out) {
		got = append(got, squeeze(l))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Errorf("kubectl %s: - want, + got\n%s", line, diff)
	}
}

// fails runs a command that ends with exit code 1 and an error that says why.
func (k *kubectl) fails(line, stdin, why string) {
	k.t.Helper()
	out, err := k.command(line, stdin).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), why) {
		k.t.Errorf("kubectl %s: %v, want exit code 1 and %q in:\n%s", line, err, why, out)
	}
}

// watching is a kubectl that runs on.
type watching struct {
	t      *testing.T
	line   string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	stdout io.ReadCloser
	lines  *bufio.Scanner
}

func (k *kubectl) watch(line string) *watching {
	k.t.Helper()
	w := &watching{t: k.t, line: line, cmd: k.command(line, "")}
	w.cmd.Stderr = &w.stderr
	var err error
	if w.stdout, err = w.cmd.StdoutPipe(); err != nil {
		k.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	w.lines = bufio.NewScanner(w.stdout)
	return w
}

// says waits for the next lines.
func (w *watching) says(want ...string) {
	w.t.Helper()
	for _, line := range want {
		if !w.lines.Scan() {
			w.t.Fatalf("kubectl %s ended before %q: %v: %s", w.line, line, w.cmd.Wait(), &w.stderr)
		}
		if got := squeeze(w.lines.Text()); got != line {
			w.t.Errorf("kubectl %s: %q, want %q", w.line, got, line)
		}
	}
}

// ends waits for an end without complaint and without another line.
func (w *watching) ends() {
	w.t.Helper()
	for w.lines.Scan() {
		w.t.Errorf("kubectl %s goes on: %s", w.line, w.lines.Text())
	}
	if err := w.cmd.Wait(); err != nil || w.stderr.Len() > 0 {
		w.t.Errorf("kubectl %s ended with %v: %s", w.line, err, &w.stderr)
	}
}

var lastAge = regexp.MustCompile(` (\d+[dhms])+$`)

// squeeze makes runs of spaces one, and every age the same.
func squeeze(line string) string {
	return lastAge.ReplaceAllString(strings.Join(strings.Fields(line), " "), " age")
}
