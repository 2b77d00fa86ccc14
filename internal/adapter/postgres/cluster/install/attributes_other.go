//go:build !linux

package install

import "syscall"

// attributes start a program in a session of its own, so that a Ctrl-C at the terminal is this process's to
// handle. Where the kernel cannot end it together with this process, the next start does.
func (a Account) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if a.other {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
	}
	return attributes
}
