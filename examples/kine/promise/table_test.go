package promise

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
	"github.com/rvfloor/rvfloor/internal/backends"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
	"github.com/rvfloor/rvfloor/internal/sides"
)

var writeTable = flag.Bool("write", false, "make docs/backends.md anew")

const (
	tableFile    = "../../../docs/backends.md"
	tableCommand = "cd examples/kine && go test -tags nats -count 1 -timeout 60m -run Table ./promise -write"
	// rowEnv has the endpoints that a test process is to look at, and rowFile is what it
	// answers.
	rowEnv, rowFileEnv = "RVFLOOR_BACKEND_ENDPOINTS", "RVFLOOR_BACKEND_ROW"
)

// subject is a backend of the table.
type subject struct {
	name string
	// start answers the endpoints: one, or two processes of one backend.
	start func(t *testing.T) []string
	// known is what is not found by looking for a second, with where it can be read.
	known string
}

// row is what was found.
type row struct {
	probe.Report
	// Stock and Ours are medians of a consistent LIST after a write elsewhere; 0: no answer.
	Stock, Ours time.Duration
	// Wrong counts answers of ours that were too old, Refused those that were errors, and
	// StockRefused upstream's.
	Wrong, Refused, StockRefused int
}

const lostEvents = "16 writers at once: a client that lists and watches loses keys for good (kine#676). No decorator can mend that; `go test -run Linear -v ./promise` counts them"

// tagged are backends that are built with a tag.
var tagged []subject

func subjects() []subject {
	all := []subject{
		{name: "etcd 3.7 (embedded)", start: func(t *testing.T) []string { return etcdlab.Run(t, etcdlab.Config{}).Endpoints() }},
		{name: "etcd 3.6.16", start: built("etcd-3.6")},
		{name: "etcd 3.5.35", start: built("etcd-3.5")},
		{name: "etcd 3.4.23 (Debian 12)", start: debian},
		{name: "kine 0.17.5, in memory", start: overKine(memory)},
		{name: "kine 0.17.5, SQLite", start: overKine(sqlite)},
		{name: "kine 0.17.5, SQLite, two kines", start: overKine(sqlites)},
		{name: "kine 0.17.5, PostgreSQL 15", start: overKine(postgres), known: lostEvents},
		{name: "kine 0.17.5, PostgreSQL 15, two kines", start: overKine(postgreses), known: lostEvents},
	}
	all = append(all, tagged...)
	etcd := fdbshim.Config{LikeEtcd: true}
	for _, shim := range []struct {
		name   string
		config fdbshim.Config
		faults fdbshim.Faults
	}{
		{"like FoundationDB", fdbshim.Config{}, fdbshim.Faults{}},
		{"NoProgress", etcd, fdbshim.Faults{NoProgress: true}},
		{"ProgressUnimplemented", etcd, fdbshim.Faults{ProgressUnimplemented: true}},
		{"ProgressBack", etcd, fdbshim.Faults{ProgressBack: true}},
		{"ProgressAheadOfCatchUp", etcd, fdbshim.Faults{ProgressAheadOfCatchUp: true}},
		{"ProgressAheadOfLive", etcd, fdbshim.Faults{ProgressAheadOfLive: true}},
		{"CreatedZero", etcd, fdbshim.Faults{CreatedZero: true}},
		{"ReadsLag", etcd, fdbshim.Faults{ReadsLag: true}},
		{"MissingLags", etcd, fdbshim.Faults{MissingLags: true}},
		{"LoseEvents", etcd, fdbshim.Faults{LoseEvents: true}},
		{"NoFilters", fdbshim.Config{}, fdbshim.Faults{NoFilters: true}},
		{"ZeroRevision", etcd, fdbshim.Faults{ZeroRevision: true}},
		{"RevisionPerPrefix", fdbshim.Config{LikeEtcd: true, RevisionPerPrefix: true}, fdbshim.Faults{}},
	} {
		all = append(all, subject{name: "shim for tests: " + shim.name, start: func(t *testing.T) []string {
			store := fdbshim.NewStore(shim.config)
			t.Cleanup(store.Close)
			endpoints := make([]string, 2)
			for i := range endpoints {
				server, err := fdbshim.Serve(store, fdbshim.Options{Faults: shim.faults})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(server.Close)
				endpoints[i] = server.Endpoint()
			}
			return endpoints
		}})
	}
	return all
}

// built is an etcd that is built from the module of that name.
func built(module string) func(*testing.T) []string {
	return func(t *testing.T) []string { return []string{etcdlab.RunBuilt(t, module)} }
}

func debian(t *testing.T) []string { return []string{etcdlab.RunDebian(t)} }

func overKine(b backend) func(*testing.T) []string {
	return func(t *testing.T) []string {
		t.Setenv(backendEnv, b.name) // inPostgres starts one for a test process
		k := start(t, b)
		os.Unsetenv(backendEnv)
		if b.processes == 1 {
			return []string{k.first()}
		}
		return []string{k.first(), k.last()}
	}
}

// TestTable makes docs/backends.md: it takes some minutes, and is run by hand.
func TestTable(t *testing.T) {
	if endpoints, ok := os.LookupEnv(rowEnv); ok {
		lookAt(t, strings.Split(endpoints, ","))
		return
	}
	if !*writeTable {
		t.Skip("not without -write")
	}
	if tagged == nil {
		t.Fatal("not without -tags nats")
	}
	var b strings.Builder
	fmt.Fprintf(&b, tableHead, tableCommand)
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) { b.WriteString(ask(t, s).line(s)) })
	}
	if t.Failed() {
		return
	}
	if err := os.WriteFile(tableFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

const tableHead = `# Backends

What was seen of each by package [probe](../decorator/probe/doc.go), in some seconds, and what follows for verified reads. The program [doctor](../examples/doctor/main.go)
says the same of any endpoint, with the evidence, and with the calls that show each fault. "Safe" is what this look saw: a fault that shows by chance it can miss. Then a consistent LIST of 100 objects right after a write elsewhere, 40 of each, in turns: the
median of upstream's, and of rvfloor with strategy "auto". "Refused" are LISTs that failed with an error; none was too old. Two processes of one backend: writes go to the one, API
servers to the other.

Made by ` + "`%s`" + `. One machine; what matters is which is how many times the other.

| backend | verified reads | strategy | LIST, upstream | LIST, rvfloor | what was found |
|---|---|---|---|---|---|
`

// ask lets a process of its own look at the subject: what upstream learns of a backend it
// learns once per process.
func ask(t *testing.T, s subject) row {
	endpoints := s.start(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "row.json")
	child := exec.CommandContext(t.Context(), self, "-test.run", "^TestTable$", "-test.v", "-test.timeout", patience.String())
	child.Env = append(os.Environ(), rowEnv+"="+strings.Join(endpoints, ","), rowFileEnv+"="+file)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r row
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lookAt is the process of a row. Writes go to the first endpoint, API servers to the last.
func lookAt(t *testing.T, endpoints []string) {
	first, last := endpoints[0], endpoints[len(endpoints)-1]
	writer := backends.Connect(t, first)
	report, err := probe.Observe(t.Context(), probe.Config{Clients: []*clientv3.Client{writer, backends.Connect(t, last)}, Effort: time.Second, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := row{Report: report}
	if len(r.Strategies) > 0 {
		r.measure(t, &kines{client: writer}, last)
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(os.Getenv(rowFileEnv), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// measure asks for LISTs, as TestElsewhere.
func (r *row) measure(t *testing.T, k *kines, endpoint string) {
	const rounds, warmUp = 40, 4
	var all []*side
	for _, kind := range []sides.Kind{sides.Stock, sides.RVFloor} {
		store, end, err := sides.OpenOld(t.Context(), kind, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = end() })
		all = append(all, &side{store: store})
	}
	created := 0
	for range sides.Pods {
		if err := createPod(t.Context(), all[0].store); err == nil {
			created++
		}
	}
	if created < sides.Pods {
		return
	}
	for round := range warmUp + rounds {
		for _, i := range rand.Perm(2) {
			revision, err := k.writeElsewhere(t.Context())
			if err != nil {
				return
			}
			all[i].ask(t.Context(), revision)
		}
		if round+1 == warmUp {
			*all[0], *all[1] = side{store: all[0].store}, side{store: all[1].store}
		}
	}
	stock, ours := all[0], all[1]
	r.Stock, r.Ours, r.Wrong, r.Refused, r.StockRefused = stock.at(50), ours.at(50), ours.tooOld, ours.failed, stock.failed
	if r.Wrong > 0 && r.Safe() != decorator.VerdictNo {
		t.Errorf("%d answers of ours were too old", r.Wrong)
	}
}

// line is the row of the table.
func (r row) line(s subject) string {
	var found []string
	for _, f := range r.Findings {
		if f.Verdict != decorator.VerdictYes {
			found = append(found, fmt.Sprintf("`%s` %v: %s", f.Property, f.Verdict, f.Seen))
		}
	}
	if s.known != "" {
		found = append(found, s.known)
	}
	strategy := "none: refused"
	if len(r.Strategies) > 0 {
		strategy = "`" + string(r.Strategies[0]) + "`"
	}
	safe := map[decorator.Verdict]string{decorator.VerdictYes: "safe", decorator.VerdictNo: "**not safe**"}[r.Safe()]
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", s.name, cmp.Or(safe, "not known"), strategy,
		median(r.Stock, r.StockRefused), median(r.Ours, r.Refused), cmp.Or(strings.Join(found, "; "), "–"))
}

func median(d time.Duration, refused int) string {
	switch ms := float64(d.Microseconds()) / 1000; {
	case refused > 0:
		return fmt.Sprintf("%d of 40 refused", refused)
	case d == 0:
		return "–"
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2g ms", ms)
	}
}
