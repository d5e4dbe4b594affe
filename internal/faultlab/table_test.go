//go:build linux && !race

package faultlab

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("write", false, "make docs/faults.md anew")

const (
	document = "../../docs/faults.md"
	command  = "go test -count 1 -timeout 20m -run FaultsTable ./internal/faultlab -write"
)

// TestFaultsTable makes the document, or holds that it has a row for each fault.
func TestFaultsTable(t *testing.T) {
	if *rewrite {
		writeTable(t)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range faultNames() {
		if !strings.Contains(string(text), "\n| "+name+" | ") {
			t.Errorf("%s has no row %q: run %s", document, name, command)
		}
	}
}

func writeTable(t *testing.T) {
	const operations = 12_000
	ours := run(t, Config{Seed: *seed, Operations: operations, Server: rvfloor})
	judge(t, ours, operations)
	upstream := run(t, Config{Seed: *seed, Operations: operations, Server: stock, Apart: true})
	var b strings.Builder
	fmt.Fprintf(&b, `# Faults

What three API servers' storages over three etcd members answered while a fault lasted, and until all of them answered again. Both columns are one run of seed %d, on one
machine: LISTs, GETs, legacy watches and watch-lists of 15 clients, and of 16 of each server that list at once, a third of them at `+"`resourceVersion=0`"+`, while they write. Numbers differ from run to run; that rvfloor has no answer that is
stale or wrong does not. Errors are those of reads, by HTTP status where there is one; a read has a deadline of %v, and "deadline" is one that ended with it. What is wrong is found by package
[linear](../internal/linear/doc.go), in reads and in what watches deliver, and counts to the fault in which a read began. Upstream is judged by the kind of read: it is
not held to the order between two kinds. A restore comes last there, as it does not recover from it, and comes once.

Each server has a second resource, whose reads are not in the columns of answers and errors, as they may fail: what is wrong in them is counted. It is what cannot be read, for want of a key as with a KMS that
is down, and what the objects are in that cannot be decoded or are under another's name (kubernetes#135115).

Made by `+"`%s`"+`.

`, *seed, callTimeout, command)
	b.WriteString(Table([]string{"upstream", "rvfloor"}, []*Result{upstream, ours}))
	fmt.Fprintf(&b, `
rvfloor: %d operations; with a member frozen, the server that knows all members answered a verified LIST after %v; all servers answered at most %v after the end of a fault.
After each fault the process had no more goroutines, and etcd no more streams of watches, than before.
`, ours.Operations, ours.Fresh.Round(1e6), ours.Healed.Round(1e6))
	if err := os.WriteFile(document, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
