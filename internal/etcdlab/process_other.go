//go:build !linux

package etcdlab

import (
	"errors"
	"syscall"
)

// Elsewhere a child still ends with its parent, by its standard input, unless frozen.
func dieWithParent() *syscall.SysProcAttr { return nil }

func (p *process) freeze() error { return errors.ErrUnsupported }

func (p *process) thaw() error { return errors.ErrUnsupported }
