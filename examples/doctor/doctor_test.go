package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call runs the program.
func call(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// examine runs it with a short effort, for its JSON.
func examine(t *testing.T, endpoints string) (int, diagnosis) {
	t.Helper()
	status, stdout, stderr := call(t, "--json", "--effort=50ms", "--endpoints="+endpoints)
	var d diagnosis
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || stderr != "" {
		t.Fatalf("%v in %q; %s", err, stdout, stderr)
	}
	return status, d
}

// TestEtcd: safe, in a table that fits a terminal.
func TestEtcd(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	status, stdout, stderr := call(t, "--effort=50ms", "--endpoints="+strings.Join(cluster.Endpoints(), ","))
	if status != exitSafe || stderr != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	for _, want := range []string{"linearizable_floor     yes    0 of ", "-> a read that waits for a floor misses no write", "request, else nudge, else", "verified reads                safe\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q", want)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if t.Failed() {
		t.Log(stdout)
	}
	if status, d := examine(t, cluster.Endpoints()[0]); status != exitSafe || d.Safe != decorator.VerdictYes || d.Properties.LinearizableFloor != decorator.VerdictYes {
		t.Errorf("got %d, %+v", status, d)
	}
}

// TestShims: the exit status, and what is said to whom it concerns. Each misbehaviour is
// tested where they are watched, in decorator/probe.
func TestShims(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    fdbshim.Config
		faults fdbshim.Faults
		status int
		says   []string
	}{
		"like etcd":       {cfg: fdbshim.Config{LikeEtcd: true}, status: exitSafe, says: []string{"request, else nudge"}},
		"no progress":     {cfg: fdbshim.Config{LikeEtcd: true}, faults: fdbshim.Faults{NoProgress: true}, status: exitSafe, says: []string{"progress_answered      no ", "reproduce: Watch(", "range-proof, else direct"}},
		"lost events":     {cfg: fdbshim.Config{LikeEtcd: true}, faults: fdbshim.Faults{LoseEvents: true}, status: exitUnsafe, says: []string{"every_event_delivered  no ", "kine#676", "not safe"}},
		"old reads":       {cfg: fdbshim.Config{LikeEtcd: true}, faults: fdbshim.Faults{ReadsLag: true}, status: exitUnsafe, says: []string{"linearizable_floor     no ", "none: "}},
		"no revisions":    {cfg: fdbshim.Config{LikeEtcd: true}, faults: fdbshim.Faults{ZeroRevision: true}, status: exitUnsafe, says: []string{"header_revision        no "}},
		"a counter each":  {cfg: fdbshim.Config{LikeEtcd: true, RevisionPerPrefix: true}, status: exitUnsafe, says: []string{"one_revision_space     no "}},
		"like Foundation": {status: exitSafe, says: []string{"progress_reaches       no ", "nudge, else range-proof"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := fdbshim.NewStore(test.cfg)
			t.Cleanup(store.Close)
			var endpoints []string
			for range 2 {
				server, err := fdbshim.Serve(store, fdbshim.Options{Faults: test.faults})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Close)
				endpoints = append(endpoints, server.Endpoint())
			}
			status, stdout, stderr := call(t, "--effort=50ms", "--endpoints="+strings.Join(endpoints, ","))
			if status != test.status || stderr != "" {
				t.Errorf("exit status %d, want %d; %s", status, test.status, stderr)
			}
			flat := strings.Join(strings.Fields(stdout), " ")
			for _, says := range test.says {
				if !strings.Contains(flat, strings.Join(strings.Fields(says), " ")) {
					t.Errorf("does not say %q", says)
				}
			}
			if t.Failed() {
				t.Log(stdout)
			}
		})
	}
}

// TestDebianEtcd is of a real old server.
func TestDebianEtcd(t *testing.T) {
	status, d := examine(t, etcdlab.RunDebian(t))
	if status != exitSafe || d.Properties.ProgressOrdered != decorator.VerdictNo || d.Strategies[0] != decorator.StrategyRangeProof {
		t.Errorf("got %d, %+v", status, d)
	}
}

// TestUnreachable: it could not be told.
func TestUnreachable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // before connectTime
	defer cancel()
	var stdout, stderr bytes.Buffer
	if status := run(ctx, []string{"--endpoints=unix:///nowhere"}, &stdout, &stderr); status != exitUnsure || stdout.Len() > 0 || !strings.Contains(stderr.String(), "unix:///nowhere cannot be reached") {
		t.Errorf("exit status %d; %s; %s", status, &stdout, &stderr)
	}
}

// TestFlags: what is wrong is named, on the standard error.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "--endpoints is missing",
		"--endpoints=,":                        "--endpoints is missing",
		"http://127.0.0.1:1":                   "--endpoints=http://127.0.0.1:1",
		"--endpoint=x":                         "-endpoint (--help",
		"--endpoints=x --cert=y":               "--cert and --key go together",
		"--endpoints=x --user=me":              "name:password",
		"--endpoints=x --prefix=registry":      "--prefix",
		"--endpoints=x --effort=0":             "--effort is 0s",
		"--endpoints=x --effort=1h":            "at most 1m",
		"--endpoints=x --json --cleanup":       "leave --json out",
		"--endpoints=x --cacert=/nowhere":      "/nowhere",
		"--endpoints=x --cert=/no --key=/such": "/no",
	} {
		if status, stdout, stderr := call(t, strings.Fields(args)...); status != exitUnsure || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit status %d; %q; %q", args, status, stdout, stderr)
		}
	}
	if status, stdout, stderr := call(t, "--help"); status != 0 || stdout != "" || !strings.Contains(stderr, "-endpoints") {
		t.Errorf("--help: exit status %d; %q; %q", status, stdout, stderr)
	}
}

// TestCleanup: the sentinel goes, and what probes left; nothing else does, and nobody else's
// key.
func TestCleanup(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{})
	client := etcdlab.Connect(t, cluster, etcdlab.ClientConfig{})
	ctx := t.Context()
	sentinel := freshness.SentinelKey("/registry")
	if _, err := freshness.NewSentinel(client, sentinel).Read(ctx); err != nil { // makes it
		t.Fatal(err)
	}
	for _, key := range []string{"/registry/rvfloor/probe/dead/a/1", "/registry/pods/a", "/registry/rvfloor/other"} {
		if _, err := client.Put(ctx, key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	endpoints := "--endpoints=" + cluster.Endpoints()[0]
	if status, stdout, stderr := call(t, endpoints, "--cleanup"); status != 0 || !strings.Contains(stdout, sentinel+" is deleted") || !strings.Contains(stdout, "1 keys") {
		t.Errorf("exit status %d; %s; %s", status, stdout, stderr)
	}
	resp, err := client.Get(ctx, "/registry/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 2 {
		t.Errorf("%d keys are left, %v", len(resp.Kvs), err)
	}
	if status, stdout, _ := call(t, endpoints, "--cleanup"); status != 0 || !strings.Contains(stdout, "is not there") {
		t.Errorf("again: exit status %d; %s", status, stdout)
	}
	if _, err := client.Put(ctx, sentinel, "mine"); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := call(t, endpoints, "--cleanup"); status != exitUnsure || !strings.Contains(stderr, "not rvfloor's") {
		t.Errorf("somebody else's key: exit status %d; %s", status, stderr)
	}
	if resp, err := client.Get(ctx, sentinel); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("somebody else's key is gone, %v", err)
	}
}
