package promise

import (
	"bufio"
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// postgresScript makes a cluster in the working directory and serves, on a socket there,
// until its standard input ends, be it with the process that started it. No data is to
// survive, so the disk does not set the pace.
const postgresScript = `set -e
initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync >&2
pg_ctl -D data -w -l postgres.log -o "-k $PWD -c listen_addresses='' -c fsync=off" start >&2
echo serving
cat >/dev/null
pg_ctl -D data -m immediate stop >&2
`

// databases are the names of the databases in use.
var databases atomic.Int64

// inPostgres starts a PostgreSQL for the test. The test is skipped where there is none.
func inPostgres(t *testing.T) (dsn func() string) {
	t.Helper()
	binaries := postgresBinaries()
	if binaries == "" {
		t.Skip("NOT TESTED: kine on PostgreSQL, which is not installed: apt-get install postgresql")
	}
	if _, child := os.LookupEnv(backendEnv); !child {
		return nil
	}
	// Not t.TempDir, which another user could not enter.
	dir, err := os.MkdirTemp("", "kine-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("sh", "-c", postgresScript)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+binaries+":"+os.Getenv("PATH"))
	if os.Geteuid() == 0 { // for whom PostgreSQL does not run
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: somebody(t, dir)}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("PostgreSQL: %v", err)
		}
	})
	if said != "serving\n" {
		t.Fatal("PostgreSQL did not start: see above")
	}
	return func() string {
		return fmt.Sprintf("postgres://postgres@/kine%d?host=%s", databases.Add(1), url.QueryEscape(dir))
	}
}

// postgresBinaries is the folder of PostgreSQL's programs, which Debian does not have in PATH.
func postgresBinaries() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// somebody is a user without rights, to whom the folder is given.
func somebody(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	debians, _ := user.Lookup("postgres")
	nobody, err := user.Lookup("nobody")
	u := cmp.Or(debians, nobody)
	if u == nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
