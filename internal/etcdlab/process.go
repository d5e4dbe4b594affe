package etcdlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

var errClosed = errors.New("the cluster is closed")

// process is one run of a member.
type process struct {
	member int
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and been waited for

	// Guarded by the lock of the Processes.
	seen  report // its last
	asked bool   // somebody asked it to end
	crash error  // how it ended where nobody did, with the end of its log
}

// spawn starts the process of member i. It returns as soon as that runs; what it
// reports rings c.moved.
func (c *Processes) spawn(i int) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errClosed
	case c.restoring:
		return nil, errors.New("a restore is under way")
	case c.running[i] != nil:
		return nil, errors.New("it runs already")
	}
	spec, err := json.Marshal(childSpec{Config: c.cfg, Index: i, Dir: c.dir, Advertise: c.doors[i].Addr()})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Log(i), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	reports, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(self)
	cmd.Dir = c.peers.dir(i)
	// etcd asks for a proxy even on the way to a unix socket.
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec), "NO_PROXY=*")
	cmd.Stderr = log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = dieWithParent()
	// It ends with this process, or with Wait, and nothing is written.
	if _, err := cmd.StdinPipe(); err != nil {
		reports.Close()
		return nil, err
	}
	p := &process{member: i, cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	c.wg.Go(func() {
		// The kernel kills the child when the thread that started it ends, be it long
		// before the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer reports.Close()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.follow(p, json.NewDecoder(reports))
		}
	})
	if err := <-started; err != nil { // it does not need the lock
		return nil, err
	}
	c.running[i] = p
	return p, nil
}

// follow takes down what a process reports, until it ends.
func (c *Processes) follow(p *process, reports *json.Decoder) {
	for {
		var r report
		if reports.Decode(&r) != nil {
			break
		}
		c.mu.Lock()
		p.seen = r
		c.moved.ringLocked()
		c.mu.Unlock()
	}
	p.cmd.Wait() // what it returns is in ProcessState
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.asked {
		p.crash = fmt.Errorf("member %d ended by itself: %v; its log ends:\n%s", p.member, p.cmd.ProcessState, logEnd(c.Log(p.member)))
		c.crashes = append(c.crashes, p.crash)
	}
	c.running[p.member] = nil
	c.moved.ringLocked()
	close(p.exited)
}

// end sends a running member a signal that ends it, and waits until it has ended.
func (c *Processes) end(ctx context.Context, i int, sig os.Signal) error {
	c.mu.Lock()
	p := c.running[i]
	if p == nil {
		c.mu.Unlock()
		return nil
	}
	p.asked = true
	c.mu.Unlock()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("etcdlab: member %d: %v: %w", i, sig, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("etcdlab: member %d has not ended after %v: %w", i, sig, context.Cause(ctx))
	}
}

// logEnd is the end of a log, for an error or a failed test.
func logEnd(path string) string {
	const enough = 4 << 10
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-enough)
	text := make([]byte, info.Size()-from)
	n, _ := f.ReadAt(text, from)
	return string(text[:n])
}
