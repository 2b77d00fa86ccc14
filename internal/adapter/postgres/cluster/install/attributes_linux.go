package install

import (
	"syscall"
)

// attributes start a program in a session of its own, so that a Ctrl-C at the terminal is this process's to
// handle, and have the kernel end it when this process dies in whatever way. The signal asks for a fast shutdown: open
// transactions are rolled back and a checkpoint is written, so that the next start has nothing to recover.
func (a Account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGINT}
	if a.other {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
	}
	return attributes
}
