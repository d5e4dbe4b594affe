//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package logfile

import (
	"os"
	"syscall"
)

// redirect sends what is written to f from now on to the other file, and returns
// what f was.
func redirect(f, to *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	was := os.NewFile(uintptr(fd), f.Name())
	if err := dup2(int(to.Fd()), int(f.Fd())); err != nil {
		return nil, err
	}
	return was, nil
}
