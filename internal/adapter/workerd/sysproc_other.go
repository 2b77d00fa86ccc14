//go:build unix && !linux

package workerd

import "syscall"

// sysProcAttr puts a child into its own process group, so that an interrupt from the terminal reaches it only through
// us. Without Linux's parent-death signal a child outlives a parent that is killed with SIGKILL.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
