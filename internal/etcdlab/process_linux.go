package etcdlab

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent lets the kernel kill a child, be it frozen, when its parent ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// freeze stops a child and returns when none of its threads runs.
func (p *process) freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		// WNOWAIT leaves the state for the next to see, who may freeze it once more.
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (p *process) thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
