package logfile

import "syscall"

// dup2 is Dup3 on Linux, where not every architecture has the older one.
func dup2(from, to int) error { return syscall.Dup3(from, to, 0) }
