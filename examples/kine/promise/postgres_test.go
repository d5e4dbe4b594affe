package promise

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// postgresScript makes a cluster in the working directory and serves, on a socket there,
// until its standard input ends, be it with the process that started it; then the directory
// goes too. No data is to survive, so the disk does not set the pace.
const postgresScript = `set -e
initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync >&2
pg_ctl -D data -w -l postgres.log -o "-k $PWD -c listen_addresses='' -c fsync=off" start >&2
echo serving
cat >/dev/null
pg_ctl -D data -m immediate stop >/dev/null 2>&1 # nobody may be there to read it
rm -rf "$PWD"
`

// postgresEnv tells test processes the folder of the PostgreSQL that the first has started.
const postgresEnv = "RVFLOOR_KINE_POSTGRES"

var (
	errNoPostgres = errors.New("it is not installed: apt-get install postgresql")
	// stopPostgres ends what startPostgres started.
	stopPostgres = func() error { return nil }
	// startPostgres starts the one PostgreSQL of all test processes.
	startPostgres = sync.OnceValue(func() (err error) {
		if os.Getenv(postgresEnv) != "" {
			return nil
		}
		dir, stop, err := runPostgres()
		if err == nil {
			stopPostgres = stop
			err = os.Setenv(postgresEnv, dir)
		}
		return err
	})
	databases atomic.Int64
)

// inPostgres is a new database. The test is skipped where there is no PostgreSQL.
func inPostgres(t *testing.T) (dsn string) {
	t.Helper()
	err := startPostgres()
	if errors.Is(err, errNoPostgres) {
		t.Skipf("NOT TESTED: kine on PostgreSQL: %v", err)
	}
	if err != nil {
		t.Fatalf("PostgreSQL: %v", err)
	}
	return fmt.Sprintf("postgres://postgres@/kine%d_%d?host=%s", os.Getpid(), databases.Add(1), url.QueryEscape(os.Getenv(postgresEnv)))
}

func runPostgres() (dir string, stop func() error, err error) {
	binaries := postgresBinaries()
	if binaries == "" {
		return "", nil, errNoPostgres
	}
	if dir, err = os.MkdirTemp("", "kine-postgres-"); err != nil {
		return "", nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	cmd := exec.Command("sh", "-c", postgresScript)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+binaries+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what kills a test's group is not to leave a server behind
	if os.Geteuid() == 0 {                               // for whom PostgreSQL does not run
		if cmd.SysProcAttr.Credential, err = somebody(dir); err != nil {
			return "", nil, errors.Join(err, remove())
		}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	stdout, theirs := io.Pipe()
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		theirs.Close()
	}()
	said, _ := bufio.NewReader(stdout).ReadString('\n')
	stop = func() error {
		stdin.Close()
		return errors.Join(<-ended, remove())
	}
	if said != "serving\n" {
		return "", nil, errors.Join(errors.New("it did not start, as said above"), stop())
	}
	return dir, stop, nil
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
func somebody(dir string) (*syscall.Credential, error) {
	debians, _ := user.Lookup("postgres")
	nobody, err := user.Lookup("nobody")
	u := cmp.Or(debians, nobody)
	if u == nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}
