// Package process runs kine, each in a process of its own: kine ends its own process
// where it finds itself in a state that it takes for impossible.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// Config says what [Start] starts.
type Config struct {
	// DSN names the database, as kine's flag --endpoint: memory://, or
	// postgres://user:password@host/database. Empty: SQLite, in Dir.
	DSN string
	// Dir is the working directory, which must be there. It has SQLite's files, in db, and
	// the log. Two kines over one SQLite share it.
	Dir string
	// Name tells apart the logs of kines that share a Dir.
	Name string
}

// Process is a kine. It listens on a unix socket and is reached through a listener of
// this process, so its endpoint stays when it is started again. Its methods may be
// called from any goroutine.
type Process struct {
	cfg    Config
	socket string
	door   *etcdlab.Proxy

	mu     sync.Mutex
	run    *run // the last
	closed bool
}

// run is one run of kine.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and been waited for
}

// serving is what a child says when it serves.
const serving = "serving\n"

var errClosed = errors.New("kine: closed")

// Start starts a kine and returns when it serves. ctx bounds that only. The program must
// have called [MaybeKine]. The error shows how kine's log ends.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	if !mayHaveChildren.Load() {
		return nil, errors.New("kine: call MaybeKine first in main or TestMain")
	}
	// Not in Dir: a socket's path may have only some 100 bytes.
	sockets, err := os.MkdirTemp("", "kine")
	if err != nil {
		return nil, err
	}
	p := &Process{cfg: cfg, socket: filepath.Join(sockets, "kine.sock")}
	if p.door, err = etcdlab.NewProxy(p.Direct()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(sockets))
	}
	if err := p.Restart(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Endpoint is where clients reach it, as clientv3 and storagebackend take it.
func (p *Process) Endpoint() string { return "http://" + p.door.Addr() }

// Direct is an endpoint that no listener of this process stands before.
func (p *Process) Direct() string { return "unix://" + p.socket }

// Log is the file with the log of all its runs.
func (p *Process) Log() string { return filepath.Join(p.cfg.Dir, p.cfg.Name+"kine.log") }

// logEnd is for an error.
func (p *Process) logEnd() string {
	const lines = 3
	text, err := os.ReadFile(p.Log())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// ID is that of the operating system; for a kine that has ended, of its last run.
func (p *Process) ID() int { return p.last().cmd.Process.Pid }

func (p *Process) last() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *Process) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Restart starts a kine that has ended, and returns when it serves.
func (p *Process) Restart(ctx context.Context) error {
	r, served, err := p.spawn()
	if err != nil {
		return fmt.Errorf("kine: start: %w", err)
	}
	select {
	case err = <-served:
	case <-ctx.Done():
		_ = r.cmd.Process.Kill() // which ends the wait
		<-served
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("kine: start: %w; its log ends:\n%s", err, p.logEnd())
	}
	return nil
}

// spawn starts the process; what comes from served is nil when kine serves, and an error when
// it has ended before.
func (p *Process) spawn() (r *run, served <-chan error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	if p.run != nil {
		select {
		case <-p.run.exited:
		default:
			return nil, nil, errors.New("it runs already")
		}
	}
	spec, err := json.Marshal(childSpec{DSN: p.cfg.DSN, Socket: p.socket})
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(p.Log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	says, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	r = &run{cmd: exec.Command(self), exited: make(chan struct{})}
	r.cmd.Dir = p.cfg.Dir
	r.cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.ExtraFiles = []*os.File{theirs}
	// It ends with this process, or with Wait, and nothing is written.
	if _, err := r.cmd.StdinPipe(); err != nil {
		return nil, nil, errors.Join(err, says.Close())
	}
	if err := r.cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, says.Close())
	}
	p.run = r
	told := make(chan error, 1)
	go func() {
		defer says.Close()
		_, err := io.ReadFull(says, make([]byte, len(serving)))
		if err == nil {
			told <- nil
		}
		_ = r.cmd.Wait() // what it returns is in ProcessState
		close(r.exited)
		if err != nil {
			told <- fmt.Errorf("it ended: %v", r.cmd.ProcessState)
		}
	}()
	return r, told, nil
}

// Kill kills it where it runs, as kill -9 does, and returns when it has ended.
func (p *Process) Kill() {
	r := p.last()
	_ = r.cmd.Process.Kill() // it has ended already, or will
	<-r.exited
}

// Close kills it, which harms no database, and closes its endpoint.
func (p *Process) Close() error {
	p.mu.Lock()
	p.closed = true
	r := p.run
	p.mu.Unlock()
	if r != nil {
		p.Kill()
	}
	p.door.Close()
	return os.RemoveAll(filepath.Dir(p.socket))
}
