//go:build !linux

package cluster

import "syscall"

// seesProcesses says that processesIn finds every process.
const seesProcesses = false

// processAttributes start a program in a session of its own, so that a Ctrl-C at the terminal is this process's to
// handle. Where the kernel cannot end it together with this process, the next start does.
func processAttributes(a account) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true}
	if a.other {
		attributes.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attributes
}

// processesIn returns the server's first process, as far as its file tells.
func processesIn(data string) []int {
	pid := postmasterPID(data)
	if pid <= 0 || syscall.Kill(pid, 0) != nil {
		return nil
	}
	return []int{pid}
}
