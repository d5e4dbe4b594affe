//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package logfile

import (
	"errors"
	"os"
)

func redirect(_, _ *os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
