package promise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/examples/kine/process"
	"github.com/rvfloor/rvfloor/internal/backends"
)

// backend is what kine keeps its data in, and how many kines share it.
type backend struct {
	name      string
	processes int
	database  func(t *testing.T) (dsn string) // a new one each time; nil: SQLite
	strategy  decorator.Strategy              // empty: what is found
	// unordered: writes get their revisions before they are committed, so that a read of
	// kine can lack one below its revision that is not acknowledged yet.
	unordered bool
	long      bool
}

// by is b with a strategy that is not left to what is found.
func by(strategy decorator.Strategy, b backend) backend {
	b.name, b.strategy = fmt.Sprintf("%s, %s", b.name, strategy), strategy
	return b
}

// atLength is b, left out under -short.
func atLength(b backend) backend {
	b.long = true
	return b
}

var (
	memory     = backend{name: "memory", processes: 1, database: inMemory}
	sqlite     = backend{name: "sqlite", processes: 1}
	sqlites    = backend{name: "sqlite, two kines", processes: 2}
	postgres   = backend{name: "postgres", processes: 1, database: inPostgres, unordered: true}
	postgreses = backend{name: "postgres, two kines", processes: 2, database: inPostgres, unordered: true}
)

func inMemory(*testing.T) string { return "memory://" }

// backendEnv names the backend of a test process.
const backendEnv = "RVFLOOR_KINE_BACKEND"

// over runs a test for each backend, in a process of its own: what upstream learns of a
// backend's features it learns once per process.
func over(t *testing.T, test func(*testing.T, backend), all ...backend) {
	if name, ok := os.LookupEnv(backendEnv); ok {
		for _, b := range all {
			if b.name == name {
				test(t, b)
			}
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			if b.long && testing.Short() {
				t.Skip("it takes longer than -short allows")
			}
			if b.database != nil {
				b.database(t) // where there is none, the test is skipped here and not out of sight
			}
			args := []string{"-test.run", "^" + filepath.Base(filepath.Dir(t.Name())) + "$", "-test.v", "-test.timeout", patience.String()}
			child := exec.CommandContext(t.Context(), self, args...)
			child.Env = append(os.Environ(), backendEnv+"="+b.name)
			out, err := child.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// patience bounds a test process. It only decides how long a broken test hangs.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	process.MaybeKine()
	code := m.Run()
	if err := stopPostgres(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "PostgreSQL:", err)
		code = 1
	}
	os.Exit(code)
}

// kines are the kines of one database, and a client of the first that knows nothing of
// rvfloor.
type kines struct {
	backend
	all     []*process.Process
	client  *clientv3.Client
	metrics []prometheus.Gatherer // of the API servers
}

// start starts the kines of a backend, over a new database.
func start(t *testing.T, b backend) *kines {
	t.Helper()
	cfg := process.Config{Dir: t.TempDir()}
	if b.database != nil {
		cfg.DSN = b.database(t)
	}
	k := &kines{backend: b}
	for range b.processes {
		cfg.Name = unique() + "-" // keeps the logs apart
		p, err := process.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				log, _ := os.ReadFile(p.Log())
				t.Logf("kine's log:\n%s", log[max(0, len(log)-2000):])
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		k.all = append(k.all, p)
	}
	k.client = backends.Connect(t, k.first())
	return k
}

// first and last are endpoints: the same where there is one kine.
func (k *kines) first() string { return k.all[0].Endpoint() }
func (k *kines) last() string  { return k.all[len(k.all)-1].Endpoint() }
